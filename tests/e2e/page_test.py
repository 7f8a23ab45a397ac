#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at / in a real browser, as its users meet it: by keyboard, against a served model and against a stand-in whose
answers are hostile, slow, broken or full of reasoning and tool calls. What is drawn from Markdown is compared case by case.

    page_test.py PROGRAM
"""

import http.client
import http.server
import json
import pathlib
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

import browser as browsers
import serve_test

MOST_BYTES = 60_000  # of all files of the page together

# Markdown to what it must become (innerHTML; of code blocks see below).
MARKDOWN = [
    ("plain *em* **strong** ***both*** ~~gone~~ `co*de*`",
     "<p>plain <em>em</em> <strong>strong</strong> <em><strong>both</strong></em> <del>gone</del> <code>co*de*</code></p>"),
    ("a_b_c _em_ 2*3*4 ** no ** \\*no\\*", "<p>a_b_c <em>em</em> 2<em>3</em>4 ** no ** *no*</p>"),
    ("**bold *it***, *it **b***", "<p><strong>bold <em>it</em></strong>, <em>it <strong>b</strong></em></p>"),
    ("# One\n## Two ##\n####### no", "<h3>One</h3><h4>Two</h4><p>####### no</p>"),
    ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
    ("- a\n- b\n  - c\n\n    more\n- d", "<ul><li>a</li><li>b<ul><li><p>c</p><p>more</p></li></ul></li><li>d</li></ul>"),
    ("- x\n\n\n- y", "<ul><li>x</li><li>y</li></ul>"),
    ("3. c\n4. d\n\nend", '<ol start="3"><li>c</li><li>d</li></ol><p>end</p>'),
    ("In\n2024. a year", "<p>In<br>2024. a year</p>"),
    ("> quoted\n> - a\n\nout", "<blockquote><p>quoted</p><ul><li>a</li></ul></blockquote><p>out</p>"),
    ("---\n* * *", "<hr><hr>"),
    ("| a | b |\n|---|--:|\n| 1 \\| x | **2** |\nend",
     '<div class="table" tabindex="0"><table><thead><tr><th>a</th><th class="right">b</th></tr></thead><tbody><tr><td>1 | x</td>'
     '<td class="right"><strong>2</strong></td></tr></tbody></table></div><p>end</p>'),
    ("[t](https://a.b/c_(d) \"x\") <https://q.r> see https://s.t/u_v_w.",
     '<p><a href="https://a.b/c_(d)" target="_blank" rel="noopener noreferrer nofollow">t</a> '
     '<a href="https://q.r" target="_blank" rel="noopener noreferrer nofollow">https://q.r</a> see '
     '<a href="https://s.t/u_v_w" target="_blank" rel="noopener noreferrer nofollow">https://s.t/u_v_w</a>.</p>'),
    ("[a](javascript:alert(1)) [b](data:text/html,x) [c]( vbscript:x) [d](//e.f) [e](java\tscript:x)",
     "<p>[a](javascript:alert(1)) [b](data:text/html,x) [c]( vbscript:x) [d](//e.f) [e](java\tscript:x)</p>"),
    ("![p](https://a.b/c.png)", '<p><a href="https://a.b/c.png" target="_blank" rel="noopener noreferrer nofollow">p</a></p>'),
    ("[x [y](https://a.b) z](https://c.d)",
     '<p><a href="https://c.d" target="_blank" rel="noopener noreferrer nofollow">x [y](https://a.b) z</a></p>'),
    ("<b>&amp;</b>", "<p>&lt;b&gt;&amp;amp;&lt;/b&gt;</p>"),
]

HOSTILE = [
    "<script>window.broken = 1</script>", "<img src=x onerror='window.broken = 2'>", "<svg onload=window.broken=3>",
    "[x](javascript:window.broken=4)", "[x](https://a.b\" onmouseover=\"window.broken=5)", "![x](http://elsewhere.invalid/p.png)",
    "`<img src=x onerror=window.broken=6>`", "```<script>\n<script>window.broken=7</script>\n```",
    "| <img src=x onerror=window.broken=8> |\n|---|\n| <iframe srcdoc='<script>parent.broken=9</script>'> |",
    "<a href='javascript:window.broken=10'>x</a>", "# <style>*{display:none}</style>", "- <form action=//elsewhere.invalid><button>x",
    "<https://a.b/\"onclick=\"window.broken=11>", "</div></article><script>window.broken=12</script>",
]


class StandIn(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Hands on what it is asked to the real server, but for completions, which `script` answers, and `replies` by path."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, real_port):
        super().__init__(("127.0.0.1", 0), Handler)
        self.real_port = real_port
        self.replies = {}  # path: (status, headers, body)
        self.script = None  # called with the handler and the request's body
        self.bodies = []
        self.left_early = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path in self.server.replies:
            self.reply(*self.server.replies[self.path])
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.real_port, timeout=30)
        connection.request("GET", self.path)
        answer = connection.getresponse()
        kept = [(n, v) for n, v in answer.getheaders() if n.lower() not in ("content-length", "connection", "date", "server")]
        self.reply(answer.status, kept, answer.read())
        connection.close()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        try:
            self.server.script(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.server.left_early += 1

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()

    def event(self, data):
        self.wfile.write(b"data: " + (data if isinstance(data, str) else json.dumps(data)).encode() + b"\n\n")
        self.wfile.flush()

    def delta(self, finish=None, **delta):
        self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def says(*deltas, finish="stop"):
    def script(handler, _):
        handler.begin_stream()
        handler.delta(role="assistant", content="")
        for delta in deltas:
            handler.delta(**(delta if isinstance(delta, dict) else {"content": delta}))
        handler.delta(finish=finish)
        handler.event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": len(deltas)}})
        handler.event("[DONE]")
    return script


NARROW = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) <= innerWidth"


class Page:
    def __init__(self, browser, port):
        self.browser = browser
        self.port = port
        self.root = f"http://127.0.0.1:{port}/"

    def open(self, **settings):
        b = self.browser
        b.open(self.root + "openapi.json")
        kept = json.dumps({k: str(v) for k, v in settings.items()})
        b.evaluate(f"sessionStorage.clear(); localStorage.setItem('firstlight.settings', {json.dumps(kept)})")
        b.open(self.root)
        b.wait_for("document.activeElement.id === 'input'")

    def ready(self):
        self.browser.wait_for("document.getElementById('ready-dot').className === 'good'")

    def send(self, text):
        before = self.count()
        self.browser.type(text)
        self.browser.press("Enter")
        self.browser.wait_for(f"document.querySelectorAll('article.assistant > footer').length > {before}")

    def count(self):
        return self.browser.evaluate("document.querySelectorAll('article.assistant > footer').length")

    def said(self):
        return json.loads(self.browser.evaluate("sessionStorage.getItem('firstlight.chat')"))

    def text(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].at(-1)?.innerText ?? null")

    def narrow(self):
        """Nothing is wider than the window."""
        return self.browser.evaluate(NARROW)


def check_files(port):
    total = 0
    for path in ("/", "/page/style.css", "/page/app.js", "/page/api.js", "/page/chat.js", "/page/dom.js", "/page/live.js",
                 "/page/markdown.js", "/page/settings.js"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        total += len(body)
        assert answer.status == 200 and answer.headers["ETag"], path
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"], path
        for word in (b"innerHTML", b"eval(", b"document.write", b"http://", b"//cdn"):
            text = body.replace(b"http://www.w3.org", b"")
            assert word not in text, f"{path} has {word}"
    assert total < MOST_BYTES, f"the page has {total} bytes"


def check_markdown(page):
    page.open()
    draw = """(async () => { const m = await import('/page/markdown.js'); const box = document.createElement('div');
              %s; return box.innerHTML })()"""
    for text, wanted in MARKDOWN:
        found = page.browser.evaluate(draw % f"m.showMarkdown(box, {json.dumps(text)})")
        assert found == wanted, f"{text!r}\n  gave   {found}\n  wanted {wanted}"
        # A text that grows is drawn as one that was there at once.
        growing = f"for (let i = 0; i <= {len(text)}; i++) m.showMarkdown(box, {json.dumps(text)}.slice(0, i))"
        assert page.browser.evaluate(draw % growing) == wanted, f"{text!r} grown"
    code = page.browser.evaluate(draw % "m.showMarkdown(box, '```py x\\na <b> & c\\n\\n  d\\n```\\nout')")
    assert "<span>py</span>" in code and "<code>a &lt;b&gt; &amp; c\n\n  d</code></pre></figure><p>out</p>" in code, code
    # Texts made to be slow are drawn in a moment.
    for text in ("'*a '.repeat(20000)", "'['.repeat(20000)", "'`'.repeat(200) + '` '.repeat(20000)", "'> '.repeat(5000)",
                 "'- '.repeat(5000)", "'\\n'.repeat(20000) + '- a' + '\\n'.repeat(20000) + '  b'", "'|'.repeat(20000) + '\\n' + '|-'.repeat(20000)",
                 "'#'.repeat(20000)", "'[a]('.repeat(20000)", "'https://a.b/'.repeat(20000)", "'**_~~'.repeat(20000)"):
        started = time.monotonic()
        page.browser.evaluate(draw % f"m.showMarkdown(box, {text})")
        assert time.monotonic() - started < 10, f"{text}: {time.monotonic() - started:.1f} s"


def check_chat(page):
    """By keyboard alone, settings too; the answer is the API's."""
    b = page.browser
    page.open()
    page.ready()
    b.evaluate("document.getElementById('open-settings').focus()")
    b.press("Enter")
    b.wait_for("document.getElementById('settings').open")
    b.wait_for("document.activeElement.name === 'system'")
    b.press("Tab")
    b.type("0")
    b.press("Tab")
    b.press("Tab")
    b.type("24")
    b.press("Enter")
    b.wait_for("!document.getElementById('settings').open")
    assert json.loads(b.evaluate("localStorage.getItem('firstlight.settings')"))["temperature"] == "0"
    b.evaluate("document.getElementById('input').focus()")
    b.type("tell me")
    b.press("Enter", shift=True)
    b.type("more")
    assert page.count() == 0 and b.evaluate("document.getElementById('input').value") == "tell me\nmore"
    b.press("Enter")
    b.wait_for("document.querySelector('#log .stats')")
    said = page.said()
    api = {"messages": [{"role": "user", "content": "tell me\nmore"}], "temperature": 0, "max_tokens": 24}
    answer = json.loads(serve_test.request(page.port, "POST", "/v1/chat/completions", json.dumps(api), key="")[1])
    wanted = answer["choices"][0]["message"]["content"]
    assert said[0]["content"] == "tell me\nmore" and said[1]["content"] == wanted, said
    shown = b.evaluate("document.querySelector('article.assistant .text').innerHTML")
    drawn = b.evaluate(f"""(async () => {{ const m = await import('/page/markdown.js'); const box = document.createElement('div');
                           m.showMarkdown(box, {json.dumps(wanted)}); return box.innerHTML }})()""")
    assert shown == drawn and len(shown) > 10
    stats = page.text("#log .stats")
    assert f"{answer['usage']['completion_tokens']} token" in stats and "first after" in stats, stats
    assert b.evaluate("document.getElementById('status').textContent") == "The answer is complete"
    # Again: greedy, so the same. Then the question is changed, and a reload keeps it all.
    b.evaluate("[...document.querySelectorAll('button')].find(x => x.textContent === 'Regenerate').click()")
    b.wait_for("document.querySelector('#log .stats') && document.activeElement.id === 'input'")
    assert page.said()[1]["content"] == wanted and len(page.said()) == 2
    b.evaluate("[...document.querySelectorAll('button')].find(x => x.textContent === 'Edit').click()")
    b.wait_for("document.activeElement.value === 'tell me\\nmore'")
    b.type(" now")
    b.press("Enter")
    b.wait_for("document.querySelector('#log .stats')")
    b.open(page.root)
    b.wait_for("document.querySelector('#log .stats')")
    assert [m["content"] for m in page.said()][0].count("now") == 1 and len(page.said()) == 2
    b.evaluate("document.getElementById('new-chat').click()")
    assert page.count() == 0 and page.said() == []


def check_settings(page, stand_in):
    """Each setting is in the request; what is wrong is told and not taken; the key stays in the tab."""
    b = page.browser
    stand_in.script = says("fine")
    page.open(system="be kind", temperature=0.5, top_p=0.9, max_tokens=7, seed=3, stop="END\\n\nx",
              tools='[{"type": "function", "function": {"name": "f"}}]')
    page.send("hi")
    body = stand_in.bodies[-1]
    assert body["messages"] == [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    for name, value in {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "seed": 3, "stop": ["END\n", "x"], "stream": True}.items():
        assert body[name] == value, body
    assert body["tools"][0]["function"]["name"] == "f"
    for field, value in (("temperature", "3"), ("max_tokens", "1.5"), ("tools", "{"), ("tools", "{}"), ("top_p", "0"), ("seed", "1.5")):
        b.evaluate("document.getElementById('open-settings').click()")
        b.evaluate(f"document.querySelector('#settings [name={field}]').focus()")
        b.evaluate("document.activeElement.select()")
        b.type(value)
        b.evaluate("document.getElementById('save-settings').click()")
        assert b.evaluate("document.getElementById('settings').open"), field
        told = b.evaluate("[document.activeElement.name, document.activeElement.validationMessage]")
        assert told[0] == field and told[1], told
        b.press("Escape")
        b.wait_for("!document.getElementById('settings').open")
    b.evaluate("document.getElementById('open-settings').click()")
    b.evaluate("document.querySelector('#settings [name=key]').value = 'secret'")
    b.evaluate("document.getElementById('save-settings').click()")
    assert b.evaluate("sessionStorage.getItem('firstlight.key')") == "secret"
    assert "secret" not in b.evaluate("JSON.stringify(localStorage)")


def check_stop(page, stand_in):
    """Escape ends an answer: the connection too."""
    def slowly(handler, _):
        handler.begin_stream()
        for i in range(1000):
            handler.delta(content=f"w{i} ")
            time.sleep(0.02)

    b = page.browser
    page.open()
    stand_in.script = slowly
    stand_in.left_early = 0
    b.type("go")
    b.press("Enter")
    b.wait_for("document.querySelector('article.assistant .text').innerText.includes('w3')")
    assert b.evaluate("document.getElementById('log').getAttribute('aria-busy')") == "true"
    assert b.evaluate("getComputedStyle(document.getElementById('stop')).display") != "none"
    b.press("Escape")
    b.wait_for("document.querySelector('#log .stats')")
    assert "stopped" in page.text("#log .stats") and "tokens/s" in page.text("#log .stats")
    assert page.said()[1]["content"].startswith("w0 w1 w2 w3")
    assert b.evaluate("document.getElementById('log').getAttribute('aria-busy')") == "false"
    deadline = time.monotonic() + 10
    while stand_in.left_early == 0:
        assert time.monotonic() < deadline, "the request goes on"
        time.sleep(0.05)
    # What was said so far is part of the conversation.
    stand_in.script = says("ok")
    page.send("next")
    assert [m["role"] for m in stand_in.bodies[-1]["messages"]] == ["user", "assistant", "user"]


def check_hostile(page, stand_in):
    b = page.browser
    page.open()
    for text in HOSTILE:
        stand_in.script = says(*[text[i:i + 5] for i in range(0, len(text), 5)])
        page.send("x")
    stand_in.script = says({"reasoning_content": HOSTILE[1]}, {"content": HOSTILE[0]}, {"tool_calls": [
        {"index": 0, "id": "1", "function": {"name": HOSTILE[1], "arguments": HOSTILE[0]}}]})
    page.send(HOSTILE[1])
    time.sleep(0.3)
    assert b.evaluate("window.broken === undefined")
    found = b.evaluate("[...document.querySelectorAll('#log script, #log img, #log svg, #log iframe, #log style, #log form, #log object')].length")
    assert found == 0, f"{found} elements that no answer may make"
    bad = b.evaluate("[...document.querySelectorAll('#log *')].filter(e => [...e.attributes].some(a => /^on/i.test(a.name) || /^\\s*(javascript|data|vbscript):/i.test(a.value))).length")
    assert bad == 0
    shown = b.evaluate("document.getElementById('log').textContent")
    for text in HOSTILE[:3] + HOSTILE[9:10] + HOSTILE[13:]:
        assert text in shown, f"not shown as it is: {text}"
    assert not [a for a in b.addresses() if "elsewhere" in a]


def check_parts(page, stand_in):
    """Reasoning is folded, tool calls are shown with their arguments, and an end for want of tokens is told."""
    b = page.browser
    page.open()
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": p}} for p in ('{"city"', ': "Ulm"}')]
    stand_in.script = says({"reasoning_content": "First "}, {"reasoning_content": "**think**."}, {"content": "The answer."},
                           {"tool_calls": [call]}, *({"tool_calls": [p]} for p in pieces), finish="length")
    page.send("x")
    assert b.evaluate("!document.querySelector('.reasoning').open && document.querySelector('.reasoning strong').textContent") == "think"
    assert page.text("article.assistant > .text") == "The answer."
    assert page.text("article.assistant .code figcaption") == "Calls weather"
    assert json.loads(page.text("article.assistant .code code")) == {"city": "Ulm"}
    assert "no more tokens" in page.text("#log .stats")
    b.evaluate("document.querySelector('.reasoning summary').click()")
    assert "First think." in page.text(".reasoning .text")
    b.evaluate("[...document.querySelectorAll('article.assistant button')].find(x => x.textContent === 'Copy').focus()")
    b.press("Enter")
    b.wait_for("[...document.querySelectorAll('article.assistant button')].some(x => x.textContent.startsWith('Cop') && x.textContent !== 'Copy' || x.textContent === 'Not copied')")


def check_faults(page, stand_in):
    """Every way to fail is told in words, and the next try works."""
    def refuses(status, message, *headers):
        body = json.dumps({"error": {"message": message, "type": "x", "param": None, "code": None}}).encode()
        return lambda handler, _: handler.reply(status, [("Content-Type", "application/json"), *headers], body)

    def breaks(handler, _):
        handler.begin_stream()
        handler.delta(content="half")

    def fails(handler, _):
        handler.begin_stream()
        handler.delta(content="half")
        handler.event({"error": {"message": "the engine is gone"}})
        handler.event("[DONE]")

    b = page.browser
    page.open()
    for script, words in ((refuses(429, "12 wait", ("Retry-After", "7")), ["more requests than it takes", "12 wait", "in 7 s"]),
                          (refuses(401, "no key"), ["API key", "settings"]), (refuses(400, "seed: wrong"), ["refused", "seed: wrong"]),
                          (refuses(503, "not ready"), ["cannot answer now"]), (breaks, ["broke off"]), (fails, ["the engine is gone"])):
        stand_in.script = script
        page.send("x")
        fault = page.text("#log .fault")
        assert all(word in fault for word in words), fault
        assert b.evaluate("document.getElementById('status').textContent") == fault
    stand_in.script = says("well")
    page.send("x")
    assert page.text("article.assistant > .text") == "well"
    # What the whole server says of itself.
    stand_in.replies["/ready"] = (503, [("Content-Type", "application/json")], b'{"ready":false,"reason":"loading weights"}')
    page.open()
    b.wait_for("document.getElementById('banner').textContent === 'Not ready: loading weights.'")
    del stand_in.replies["/ready"]
    page.ready()
    assert b.evaluate("document.getElementById('banner').hidden")


def check_live(page):
    b = page.browser
    page.open(temperature=0, max_tokens=60)
    b.wait_for("performance.getEntriesByType('resource').some(e => e.name.endsWith('/metrics'))")
    for _ in range(3):
        page.send("count")
    b.evaluate("document.getElementById('tab-chat').focus()")
    b.press("ArrowRight")
    assert b.evaluate("!document.getElementById('live').hidden && document.activeElement.id === 'tab-live'")
    b.wait_for("document.querySelectorAll('.chart path.line-0[d^=M]').length >= 5")
    labels = b.evaluate("[...document.querySelectorAll('.plot svg')].map(s => s.getAttribute('aria-label'))")
    told = dict(label.split(": ", 1) for label in labels)
    assert told["Requests"] == "running 0, waiting 0", told
    for title in ("Time to first token", "Between tokens"):
        assert "ms" in told[title] and "–" not in told[title], told
    assert "B" in told["Memory of states"], told
    numbers = dict(b.evaluate("[...document.querySelectorAll('.numbers > div')].map(d => [d.children[0].textContent, d.children[1].textContent])"))
    assert int(numbers["tokens written"]) >= 100 and int(numbers["requests ended"]) >= 3, numbers
    wanted = b.evaluate("""(async () => { const m = await import('/page/live.js'); const h = (text) => m.parseMetrics(text);
        const one = h('x_bucket{le="1"} 10\\nx_bucket{le="2"} 20\\nx_bucket{le="+Inf"} 20'), two = h('x_bucket{a="b",le="1"} 10\\nx_bucket{a="b",le="2"} 30\\nx_bucket{a="b",le="+Inf"} 40');
        return [m.quantile(null, one, 'x', .5), m.quantile(null, one, 'x', .75), m.quantile(one, two, 'x', .25), m.quantile(one, two, 'x', .95), m.quantile(one, one, 'x', .5) ?? null] })()""")
    assert wanted == [1, 1.5, 1.5, 2, None], wanted
    b.press("ArrowLeft")
    assert b.evaluate("!document.getElementById('chat').hidden")


def check_live_of_others(page, stand_in):
    """A server that tells other figures, or none, is no fault."""
    b = page.browser
    for text in ("", "something_else 3\n# HELP x\nbroken{ 1\n", 'firstlight_memory_bytes{kind="weights"} 1048576\nfirstlight_requests_running 2\n'):
        stand_in.replies["/metrics"] = (200, [("Content-Type", "text/plain")], text.encode())
        b.open(page.root + "openapi.json")
        b.open(page.root + "#live")
        b.wait_for("document.querySelector('#live .note').textContent !== 'Reading…'")
    assert "memory: weights" in page.text(".numbers") and "1.00 MiB" in page.text(".numbers")
    stand_in.replies["/metrics"] = (500, [], b"")
    b.wait_for("document.querySelector('#live .note').textContent.includes('cannot be read')")
    del stand_in.replies["/metrics"]


def check_layout(page, stand_in):
    b = page.browser
    wide = "x" * 400 + "\n\n```\n" + "y" * 400 + "\n```\n\n|" + " column |" * 20 + "\n|" + "-|" * 20 + "\n|" + " cell |" * 20 + "\n\n`" + "z" * 300 + "`"
    stand_in.script = says({"reasoning_content": wide}, wide)
    page.open()
    page.send("w" * 200)
    b.evaluate("document.querySelector('.reasoning').open = true")
    for width in (320, 360, 390, 1100):
        b.size(width, 740, phone=width < 500)
        b.wait_for(f"innerWidth === {width} && {NARROW}")
        b.evaluate("document.getElementById('tab-live').click()")
        b.wait_for("!document.getElementById('live').hidden")
        assert page.narrow() and b.evaluate("document.getElementById('live').scrollWidth <= document.getElementById('live').clientWidth"), width
        b.evaluate("document.getElementById('tab-chat').click(); document.getElementById('open-settings').click()")
        assert page.narrow() and b.evaluate("document.getElementById('settings').getBoundingClientRect().right <= innerWidth"), width
        b.press("Escape")
        b.wait_for("!document.getElementById('settings').open")
    colours = []
    for scheme in ("light", "dark"):
        b.prefer(color_scheme=scheme, reduced_motion="reduce")
        colours.append(b.evaluate("getComputedStyle(document.body).backgroundColor"))
        # Text stands out from its ground: at least 4.5 to 1.
        for selector in (".stats", ".user .said", "article.assistant > .text", "#model-name", "#keys"):
            ratio = b.evaluate(CONTRAST % selector)
            assert ratio >= 4.5, f"{selector} in {scheme}: contrast {ratio:.2f}"
    assert colours[0] != colours[1]
    assert b.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")
    b.evaluate("document.querySelector('article.assistant > .text').classList.add('waiting')")
    assert b.evaluate("getComputedStyle(document.querySelector('.waiting > p:last-child'), '::after').animationName") == "none"
    b.prefer()


CONTRAST = """(() => { const lum = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b };
  const e = document.querySelector('%s'); let back = e; while (back && /rgba\\(0, 0, 0, 0\\)|transparent/.test(getComputedStyle(back).backgroundColor)) back = back.parentElement;
  const [a, b] = [lum(getComputedStyle(e).color), lum(getComputedStyle(back).backgroundColor)].sort((x, y) => y - x); return (a + .05) / (b + .05) })()"""


def check_keyboard(page, stand_in):
    """Tab goes through everything in the order of the page, and where it is can be seen."""
    b = page.browser
    stand_in.script = says("text with [a link](https://a.b) and\n\n```\ncode\n```")
    page.open()
    page.send("x")
    b.evaluate("document.getElementById('tab-chat').focus()")
    seen = []
    for _ in range(14):
        b.press("Tab")
        seen.append(b.evaluate("document.activeElement.id || document.activeElement.textContent.slice(0, 20) || document.activeElement.tagName"))
        if b.evaluate("document.activeElement !== document.body"):
            outline = b.evaluate("getComputedStyle(document.activeElement).outlineStyle + parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
            assert outline == "solid2", f"{seen[-1]}: focus cannot be seen ({outline})"
    wanted = ["new-chat", "open-settings", "log", "Edit", "Copy", "a link", "Copy", "code", "Regenerate", "Copy", "input", "send"]
    assert seen[:len(wanted)] == wanted, seen
    unnamed = b.evaluate("""[...document.querySelectorAll('button, input, textarea, [role]')].filter(e => !e.closest('svg') &&
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length || e.getAttribute('role') === 'status' || e.getAttribute('role') === 'alert')).map(e => e.outerHTML)""")
    assert not unnamed, unnamed


def main():
    if browsers.chromium() is None:
        print("SKIPPED: no chromium")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        serve_test.make_model(pathlib.Path(folder))
        port = serve_test.free_port()
        command = [sys.argv[1], "serve", folder, "--backend", "cpu", "--port", str(port)]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        browser = None
        try:
            serve_test.wait_until_ready(port, program)
            browser = browsers.Browser()
            stand_in = StandIn(port)
            real, fake = Page(browser, port), Page(browser, stand_in.server_address[1])
            checks = [("files", lambda: check_files(port)), ("markdown", lambda: check_markdown(real)), ("chat", lambda: check_chat(real)),
                      ("settings", lambda: check_settings(fake, stand_in)), ("stop", lambda: check_stop(fake, stand_in)),
                      ("hostile answers", lambda: check_hostile(fake, stand_in)), ("parts", lambda: check_parts(fake, stand_in)),
                      ("faults", lambda: check_faults(fake, stand_in)), ("live view", lambda: check_live(real)),
                      ("figures of other servers", lambda: check_live_of_others(fake, stand_in)),
                      ("keyboard", lambda: check_keyboard(fake, stand_in)), ("layout", lambda: check_layout(fake, stand_in))]
            for name, check in checks:
                started = time.monotonic()
                browser.size(1100, 760)
                try:
                    check()
                except Exception as error:  # every check is told, whatever went wrong in it
                    failures += 1
                    print(f"FAILED {name}: {type(error).__name__}: {error}")
                print(f"{name}: {time.monotonic() - started:.1f} s")
            # Refused answers are told by the browser too; all else, a broken rule of the page's policy above all, is a fault.
            problems = [p for p in browser.problems() if not p.startswith("Failed to load resource: the server responded with a status of")]
            addresses = {a for a in browser.addresses() if not a.startswith(("http://127.0.0.1:", "data:"))}
            if problems or addresses:
                failures += 1
                print(f"FAILED: the browser complains: {problems}, {addresses}")
        finally:
            if browser:
                browser.close()
            program.kill()
            program.wait()
    print(f"{len(checks)} checks, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
