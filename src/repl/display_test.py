"""MIME bundles: display(), rich values, figures."""

import base64
import json

import pytest


def shown(call):
    return [(k, m["data"]) for k, m in call.events if k in ("display", "result")]


def pngs(call):
    return [d["image/png"] for _, d in shown(call) if "image/png" in d]


def test_display_sends_a_bundle(agent):
    call = agent.run("display('a', 2)")
    assert shown(call) == [("display", {"text/plain": "'a'"}), ("display", {"text/plain": "2"})]
    call = agent.run("from IPython.display import HTML, JSON, Markdown, Image, clear_output\ndisplay(HTML('<b>x</b>'))")
    assert shown(call)[0][1]["text/html"] == "<b>x</b>"
    call = agent.run("clear_output()")
    assert [k for k, _ in call.events] == ["done"]


def test_rich_values(agent):
    call = agent.run("class R:\n    def _repr_html_(self): return '<i>'\n    def _repr_markdown_(self): return '*'\n    def __repr__(self): return 'R'\nR()")
    assert shown(call) == [("result", {"text/plain": "R", "text/html": "<i>", "text/markdown": "*"})]
    assert shown(agent.run("JSON({'a': [1, None]})"))[0][1]["application/json"] == {"a": [1, None]}
    call = agent.run("class M:\n    def _repr_mimebundle_(self, **k): return {'application/x-a+json': {'b': 1}, 'text/plain': 'm'}\nM()")
    assert shown(call) == [("result", {"application/x-a+json": {"b": 1}, "text/plain": "m"})]


def test_what_is_not_json_is_still_told(agent):
    for code in ("JSON({'a': float('nan')})", "JSON({'a': {1, 2}})", "JSON({(1, 2): 3})"):
        assert "application/json" in shown(agent.run(code))[0][1]
    agent.run("class Odd:\n    def _repr_mimebundle_(self, **k): return {'text/plain': 5, 'x/y': object(), 3: 'n', 'text/html': '\\ud800'}\nOdd()")
    assert agent.call.done


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, inner), default=0)


@pytest.mark.parametrize(
    "code",
    [
        "JSON({'n': 10**400})",
        "JSON({'n': 10**5000})",
        "JSON({'n': 1 << 64})",
        "JSON({'n': -(1 << 63) - 1})",
        "JSON({'n': float('inf')})",
        "JSON('{\"n\": 1e999}')",
        "x = []\nfor i in range(102): x = [x]\nJSON(x)",
        "x = {}\nfor i in range(1200): x = {'a': x}\nJSON(x)",
        "x = []\nfor i in range(100_000): x = [x]\nclass J:\n    def _repr_json_(self): return x\nJ()",
    ],
)
def test_json_that_not_every_reader_takes_becomes_text(agent, code):
    data = shown(agent.run("from IPython.display import JSON\n" + code))[0][1]
    assert isinstance(data["application/json"], str)
    assert agent.call.code == 0


def test_json_that_every_reader_takes_stays(agent):
    whole = {"n": [(1 << 64) - 1, -(1 << 63), 1.5e308, -0.0]}
    assert shown(agent.run(f"JSON({whole})"))[0][1]["application/json"] == whole
    data = shown(agent.run("x = []\nfor i in range(95): x = [x]\nJSON({'x': x})"))[0][1]
    assert depth(data["application/json"]) == 97


def test_a_bundle_is_bounded_as_it_is_sent(agent):
    """Of characters that take four bytes, and of those that JSON writes as six."""
    for one in ("\\U0001f600", "\\x01"):
        agent.run(
            f"class B:\n    def _repr_mimebundle_(self, **k): return {{f'text/{{i}}': '{one}' * (1 << 20) for i in range(9)}}\nB()"
        )
        data = shown(agent.call)[0][1]
        assert len(json.dumps(data, ensure_ascii=False).encode()) < 8 << 20
        assert "left out" in data["text/plain"]


def test_images_are_base64(agent):
    call = agent.run("class I:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + b'0' * 10\nI()")
    assert base64.b64decode(pngs(call)[0]).startswith(b"\x89PNG")


def test_huge_values_are_cut_and_say_so(agent):
    text = agent.run("'x' * 5_000_000").value
    assert (1 << 20) < len(text) < (1 << 20) + 100
    assert "left out" in text
    assert len(agent.run("list(range(1_000_000))").value) < 20_000
    data = shown(agent.run("HTML('x' * 5_000_000)"))[0][1]
    assert "text/html" not in data and "left out" in data["text/plain"]
    data = shown(agent.run("class I:\n    def _repr_png_(self): return b'0' * 9_000_000\nI()"))[0][1]
    assert "image/png" not in data and "left out" in data["text/plain"]
    data = shown(agent.run("class I:\n    def _repr_png_(self): return b'0' * 3_900_000\n    _repr_jpeg_ = _repr_png_\nI()"))[0][1]
    assert len(str(data)) < 8_000_000


def test_matplotlib_is_not_imported_unasked(fresh):
    assert fresh.run("import sys\n[m for m in sys.modules if m.startswith(('matplotlib', 'numpy'))]").value == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "plt.plot([1, 2, 3])",
        "plt.bar(['a', 'b'], [1, 2])\nplt.show()",
        "fig, ax = plt.subplots(); ax.plot([1]); fig",
        "fig, ax = plt.subplots(); ax.plot([1]); display(fig)",
        "fig, ax = plt.subplots(); ax.plot([1]); display(fig); plt.show()",
        "plt.plot([1]); plt.show(); plt.show()",
        "plt.plot([1]); plt.gcf()",
        "%matplotlib inline\nplt.plot([1])",
        "from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1]); f",
        "import pandas as pd; pd.DataFrame({'a': [1, 2]}).plot()",
        "plt.plot([1]); plt.savefig('/dev/null', format='png')",
    ],
)
def test_a_figure_comes_back_once(agent, code):
    call = agent.run("import matplotlib.pyplot as plt\n" + code)
    assert call.code == 0, call.events
    assert len(pngs(call)) == 1
    assert base64.b64decode(pngs(call)[0]).startswith(b"\x89PNG")
    assert not call.err
    assert not pngs(agent.run("1"))


def test_a_figure_is_shown_where_show_stands(agent):
    call = agent.run("import matplotlib.pyplot as plt\nimport time; print(1); plt.plot([1]); plt.show(); time.sleep(0.2); print(2)")
    assert [k for k, _ in call.events if k != "stdout"] == ["display", "done"]
    assert call.events[-2] == ("stdout", b"2\n")


def test_several_figures_all_come(agent):
    assert len(pngs(agent.run("for i in range(3): plt.figure(); plt.plot([i])"))) == 3


def test_closed_and_empty_figures_do_not_come(agent):
    assert not pngs(agent.run("plt.plot([1]); plt.close()"))
    assert not pngs(agent.run("plt.figure();"))


def test_a_figure_comes_though_the_call_fails(agent):
    call = agent.run("plt.plot([1]); 1/0")
    assert len(pngs(call)) == 1 and call.code == 1


def test_a_figure_of_the_agg_backend_comes_too(fresh):
    call = fresh.run("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()")
    assert len(pngs(call)) == 1


def test_children_draw_without_the_session(agent):
    call = agent.run("!/usr/bin/python3 -c 'import matplotlib.pyplot as p; p.plot([1]); print(p.get_backend())'")
    assert call.out.lower() == "agg\n"


def test_a_printer_of_the_users_own_for_numbers_is_used(agent):
    assert shown(agent.run("41 + 1")) == [("result", {"text/plain": "42"})]
    assert shown(agent.run("-(1 << 70)")) == [("result", {"text/plain": str(-(1 << 70))})]
    agent.run(
        "plain = get_ipython().display_formatter.formatters['text/plain']\n"
        "plain.for_type(int, lambda n, p, cycle: p.text(hex(n)))"
    )
    assert shown(agent.run("41 + 1")) == [("result", {"text/plain": "0x2a"})]
    agent.run("plain.for_type(int, __import__('IPython').lib.pretty._repr_pprint)")
