from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.declare.pictures.drawing import BOX_WIDTH, as_svg, columns_of, wrapped
from headwater.flow.declare.pictures.picture import Box, Picture, picture_of
from tests.flow.declare.plans import TEXT, whole_outline

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(as_svg(picture))


@pytest.fixture(scope="module")
def whole() -> ElementTree.Element:
    return drawn(picture_of(whole_outline()))


def rectangles(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of every box."""
    found = []
    for one in root.iter(f"{SVG}rect"):
        if one.get("width") == str(BOX_WIDTH):
            x, y, width, height = (float(one.get(name, "")) for name in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def test_every_box_is_drawn_with_all_its_words(whole: ElementTree.Element) -> None:
    tooltips = [title.text for group in whole.iter(f"{SVG}g") for title in group.findall(f"{SVG}title")]
    assert tooltips == ["\n".join([box.title, *box.lines]) for box in picture_of(whole_outline()).boxes]
    assert any(TEXT in (text or "") for text in tooltips)


def test_every_arrow_is_drawn(whole: ElementTree.Element) -> None:
    arrows = [path for path in whole.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == len(picture_of(whole_outline()).arrows)


def test_no_two_boxes_overlap(whole: ElementTree.Element) -> None:
    boxes = rectangles(whole)
    assert len(boxes) == len(picture_of(whole_outline()).boxes)
    overlapping = [
        (one, other)
        for one, other in combinations(boxes, 2)
        if one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    ]
    assert overlapping == []


def test_everything_lies_inside_of_the_picture(whole: ElementTree.Element) -> None:
    width, height = float(whole.get("width", "")), float(whole.get("height", ""))
    assert all(x >= 0 and right <= width and y >= 0 and bottom <= height for x, y, right, bottom in rectangles(whole))


def test_a_box_stands_to_the_right_of_everything_it_is_made_from() -> None:
    picture = picture_of(whole_outline())
    columns = columns_of(picture)
    assert all(columns[start] < columns[end] for start, end in picture.arrows)


def test_long_words_are_cut_in_the_picture() -> None:
    assert wrapped(Box("a", "step", "sql", ("word " * 200,)))[-1] == "…"
    assert all(len(line) <= 36 for line in wrapped(Box("a", "step", "sql", ("x" * 500,))))


def test_what_xml_cannot_hold_is_replaced() -> None:
    root = drawn(Picture("a\x00b\x1b", (Box("a", "step", "\ud800", ()),), ()))
    assert root.findtext(f"{SVG}title") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), min_size=1))
def test_any_words_make_a_well_formed_picture(words: str) -> None:
    root = drawn(Picture(words, (Box("a", "step", words, (words,)),), ()))
    assert root.findtext(f"{SVG}title") == words
