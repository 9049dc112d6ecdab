"""A planned app as text and as pictures: Mermaid for documents, SVG for browsers (pure; SVG is in drawing.py)."""

from dataclasses import dataclass

from headwater.flow.declare.pictures.outline import JobOutline, Outline, OutputOutline, SourceOutline, StepOutline

TOPIC_BOX, SOURCE_BOX, STEP_BOX, OPERATOR_BOX, VIEW_BOX, SINK_BOX = (
    "topic", "source", "step", "operator", "view", "sink",
)  # fmt: skip


@dataclass(frozen=True)
class Box:
    id: str
    kind: str
    title: str
    lines: tuple[str, ...] = ()
    job: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes and arrows; a topic that one job writes and another reads is one box."""

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[tuple[str, str], ...]


# -- text --------------------------------------------------------------------------------------------------------------


def as_text(plan: Outline) -> str:
    """What `headwater plan` prints."""
    lines = [f"app {plan.app}  ({plan.place})"]
    for job in plan.jobs:
        lines += ["", *_job_lines(job)]
    if plan.removed:
        lines += ["", "no longer declared", *(f"  {one}" for one in plan.removed)]
    return "\n".join(lines)


def _job_lines(job: JobOutline) -> list[str]:
    lines = [f"job {job.name}, consumer group {job.group}", *(f"  {one}" for one in job.runs)]
    topics: set[str] = set()
    for source in job.sources:
        lines += [f"  reads {source.kind} {source.name}  ({source.place})"]
        lines += [f"      {line}" for line in source_lines(source) if line not in topics]
        topics.add(topic_line(source))
    shown: dict[str, str] = {}
    for output in job.outputs:
        lines += _output_lines(job, output, shown)
    keeping: list[SourceOutline | StepOutline] = [*job.sources, *job.steps]
    kept = [(one.state, *_kept(one)) for one in keeping if one.state]
    if kept:
        width = max(len(name) for name, _, _ in kept)
        lines += ["  keeps state"]
        lines += [f"      {name:<{width}}  {does} by {', '.join(key)}" for name, does, key in kept]
    if growing := [one for one in job.steps if one.grows]:
        width = max(len(one.state) for one in growing)
        lines += ["  state that grows for ever"]
        lines += [f"      {one.state:<{width}}  {one.grows}" + _estimated(one.estimate) for one in growing]
    late = [f"  late rows go to topic {job.late}"] if job.late else []
    return [*lines, *late, f"  poisoned rows go to topic {job.poisoned}, accounts to topic {job.accounts}"]


def _estimated(said: str) -> str:
    return f"; {said}" if said else ""


def _kept(one: SourceOutline | StepOutline) -> tuple[str, tuple[str, ...]]:
    return ("table" if isinstance(one, SourceOutline) else one.does), one.key


def source_lines(source: SourceOutline) -> list[str]:
    lines = [topic_line(source)]
    if source.time:
        lines.append(f"time {source.time}" + (f", up to {source.lateness} late" if source.lateness else ""))
    if source.key:
        lines.append(f"key {', '.join(source.key)}")
    return lines


def topic_line(source: SourceOutline) -> str:
    return f"topic {source.topic}, {source.format}: {source.columns}"


def _output_lines(job: JobOutline, output: OutputOutline, shown: dict[str, str]) -> list[str]:
    """`shown` are steps that are shown already, and the output that they are shown with."""
    verdict = f": {output.verdict}" if output.verdict else ""
    lines = [f"  writes {output.kind} {output.name}  ({output.place}){verdict}"]
    about = [output.doc, output.why, *chain_of(job, output.made_from, shown, f"{output.kind} {output.name}")]
    about += [f"key {', '.join(output.key)}"] if output.key else []
    about += [f"columns {output.columns}"] if output.columns else []
    about += [f"{output.where}; {output.promise}"]
    return lines + [f"      {line}" for line in about if line]


def chain_of(job: JobOutline, id: str, shown: dict[str, str], output: str) -> list[str]:
    """How something is made, from its source on; where several streams meet, each is indented below. What was shown
    with another output is not shown again."""
    sources = {source.id: source for source in job.sources}
    if id in sources:
        return [f"from {sources[id].name}"]
    step = next(step for step in job.steps if step.id == id)
    said = step_words(step)
    if id in shown:
        where = f"as {shown[id]}" if shown[id] != output else "as above"
        return [f"{where}, up to {said}"]
    shown[id] = output
    chains = [chain_of(job, one, shown, output) for one in step.inputs]
    if len(chains) == 1:
        return [*chains[0], said]
    return [f"{said}, over" if step.words else f"{said} of"] + [
        f"{'- ' if place == 0 else '  '}{line}" for chain in chains for place, line in enumerate(chain)
    ]


def step_words(step: StepOutline) -> str:
    said = f"{step.does} {step.words}".strip()
    return f"{said}  [state {step.state}]" if step.state else said


# -- boxes -------------------------------------------------------------------------------------------------------------


def picture_of(plan: Outline) -> Picture:
    topics: dict[str, str] = {}
    boxes: list[Box] = []
    arrows: list[tuple[str, str]] = []

    def topic(name: str) -> str:
        if name not in topics:
            topics[name] = f"t{len(topics)}"
            boxes.append(Box(topics[name], TOPIC_BOX, name, ("topic",)))
        return topics[name]

    for job in plan.jobs:
        for source in job.sources:
            arrows.append((topic(source.topic), source.id))
            boxes.append(_source_box(source, job.name))
        for step in job.steps:
            arrows += [(one, step.id) for one in step.inputs]
            boxes.append(_step_box(step, job.name))
        for output in job.outputs:
            if output.kind == "topic":
                arrows.append((output.made_from, topic(output.name)))
            else:
                arrows.append((output.made_from, output.id))
                boxes.append(_output_box(output))
    return Picture(f"app {plan.app}", tuple(boxes), tuple(dict.fromkeys(arrows)))


def _source_box(source: SourceOutline, job: str) -> Box:
    kind = OPERATOR_BOX if source.state else SOURCE_BOX
    state = (f"state {source.state}",) if source.state else ()
    return Box(source.id, kind, f"{source.kind} {source.name}", (source.columns, *state, f"job {job}"), job)


def _step_box(step: StepOutline, job: str) -> Box:
    words = (step.words,) if step.words else ()
    state = (f"state {step.state}",) if step.state else ()
    return Box(step.id, OPERATOR_BOX if step.state else STEP_BOX, step.does, words + state, job)


def _output_box(output: OutputOutline) -> Box:
    key = (f"key {', '.join(output.key)}",) if output.key else ()
    kind = VIEW_BOX if output.kind == "view" else SINK_BOX
    return Box(output.id, kind, f"{output.kind} {output.name}", (*key, output.where, output.promise))


# -- Mermaid -----------------------------------------------------------------------------------------------------------

SHAPES = {
    TOPIC_BOX: ("[(", ")]"),
    SOURCE_BOX: ("[", "]"),
    STEP_BOX: ("[", "]"),
    OPERATOR_BOX: ("[[", "]]"),
    VIEW_BOX: ("([", "])"),
    SINK_BOX: (">", "]"),
}


def as_mermaid(plan: Outline) -> str:
    """A flowchart that GitHub and most tools for documents draw."""
    picture = picture_of(plan)
    lines = ["flowchart LR"]
    lines += [f"  {_mermaid_box(box)}" for box in picture.boxes if not box.job]
    for number, job in enumerate(plan.jobs):
        lines.append(f'  subgraph job{number}["job {_mermaid_text(job.name)}"]')
        lines += [f"    {_mermaid_box(box)}" for box in picture.boxes if box.job == job.name]
        lines.append("  end")
    lines += [f"  {start} --> {end}" for start, end in picture.arrows]
    return "\n".join(lines)


def _mermaid_box(box: Box) -> str:
    opening, closing = SHAPES[box.kind]
    text = "<br/>".join([f"<b>{_mermaid_text(box.title)}</b>", *map(_mermaid_text, box.lines)])
    return f'{box.id}{opening}"{text}"{closing}'


def _mermaid_text(text: str) -> str:
    """Characters that mean something to Mermaid are written by their numbers."""
    return "".join(f"#{ord(one)};" if one in '#"<>&`\\{}[]|' else one for one in text)
