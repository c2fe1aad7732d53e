"""Pages of sandboxes in a real browser, beside a person's login at Warren's own address."""

import json
import os
import shutil
import tempfile

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from port_programs import Port, start_program

pytestmark = pytest.mark.alone  # a browser wants the processors for itself

# Tries all that could reach the login, and what a page of its own needs; tells what came of each.
PAGE = r'''<!doctype html><title>hostile</title><h1>page</h1>
<script type="module" src="module.js"></script>
<script>
const results = {};
async function attempt(name, what) {
  try { results[name] = "got " + JSON.stringify(await what()); }
  catch (error) { results[name] = "refused " + error.name; }
}
function later(test) {
  return new Promise((resolve, reject) => {
    const end = Date.now() + 5000;
    (function look() { try { const found = test(); if (found) return resolve(found); } catch (error) { return reject(error); }
                       Date.now() > end ? resolve("nothing") : setTimeout(look, 50); })();
  });
}
(async () => {
  const other = new URLSearchParams(location.search).get("other");
  await attempt("origin", () => self.origin);
  await attempt("local storage", () => localStorage.getItem("warren_key"));
  await attempt("session storage", () => sessionStorage.length);
  await attempt("indexed database", () => new Promise((yes, no) => { const r = indexedDB.open("x"); r.onsuccess = () => yes("open"); r.onerror = () => no(r.error); }));
  await attempt("caches", () => caches.keys());
  await attempt("cookie", () => document.cookie);
  await attempt("set cookie", () => { document.cookie = "planted=1; path=/"; return document.cookie; });
  await attempt("api", async () => (await fetch("/v1/sandboxes", {credentials: "include"})).status);
  await attempt("api with a key", async () => (await fetch("/v1/sandboxes", {headers: {Authorization: "Bearer x"}})).status);
  await attempt("mcp", async () => (await fetch("/mcp", {method: "POST", body: "{}", credentials: "include"})).status);
  await attempt("health", async () => (await fetch("/healthz")).text());
  await attempt("blind", async () => { const r = await fetch("/healthz", {mode: "no-cors"}); return r.type + (await r.text()); });
  await attempt("service worker", () => navigator.serviceWorker.register("sw.js").then(() => "registered"));
  await attempt("frame", async () => {
    const frame = document.createElement("iframe"); frame.src = "/"; document.body.append(frame);
    await new Promise(done => frame.onload = done);
    return frame.contentWindow.document.body.innerText;
  });
  if (other) await attempt("another sandbox", async () => {
    const frame = document.createElement("iframe"); frame.src = other; document.body.append(frame);
    await new Promise(done => frame.onload = done);
    return frame.contentWindow.document.body.innerText;
  });
  await attempt("opener", () => window.opener ? window.opener.localStorage.getItem("warren_key") : "none");
  await attempt("parent", () => window.top === window ? "none" : window.top.document.title);
  await attempt("own file", async () => (await fetch("echo", {method: "PUT", body: "x", headers: {"X-Mine": "1"}})).json().then(j => j.method));
  await attempt("own socket", () => new Promise((yes, no) => {
    const socket = new WebSocket(new URL("ws", location.href).href.replace("http", "ws"));
    socket.onopen = () => socket.send("hello"); socket.onmessage = m => yes(m.data); socket.onerror = () => no(new Error("socket"));
  }));
  await attempt("own events", () => new Promise((yes, no) => {
    const events = new EventSource("events?count=1"); events.onmessage = e => { events.close(); yes(e.data); }; events.onerror = () => no(new Error("events"));
  }));
  await attempt("own module", () => later(() => window.moduleRan));
  document.title = "done";
  window.results = results;
})();
</script>'''


@pytest.fixture(scope="module")
def browser():
    folder = tempfile.mkdtemp(prefix="warren-test-browser-")
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking",
                     "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-default-apps", f"--user-data-dir={folder}",
                     # Not a name is looked up, and nothing but loopback is reached.
                     "--host-resolver-rules=MAP *.sandboxes.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
        options.add_argument(argument)
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver", log_output=os.devnull), options=options)
    driver.set_page_load_timeout(60)
    driver.set_script_timeout(60)
    yield driver
    driver.quit()
    shutil.rmtree(folder, ignore_errors=True)


def serve_page(sandbox, port):
    sandbox.put("/root/page.html", PAGE.encode())
    start_program(sandbox, port)


def log_in(browser, server):
    """As a page of Warren's own would keep who is logged in."""
    browser.get(server.url + "/")
    browser.execute_script("localStorage.setItem('warren_key', arguments[0]); document.cookie = 'login=secret; path=/'", server.key)
    assert browser.execute_script("return localStorage.getItem('warren_key')") == server.key


def visit(browser, url):
    browser.execute_script("window.open(arguments[0])", url)
    browser.switch_to.window(browser.window_handles[-1])
    WebDriverWait(browser, 60).until(lambda driver: driver.title == "done")
    results = browser.execute_script("return window.results")
    browser.close()
    browser.switch_to.window(browser.window_handles[0])
    return results


SECRET = ("local storage", "session storage", "indexed database", "caches", "cookie", "set cookie", "api", "api with a key", "mcp",
          "health", "service worker", "frame", "another sandbox", "opener")


def test_a_page_of_a_sandbox_cannot_use_a_persons_login(browser, warren, make_sandbox):
    hostile, other = make_sandbox(), make_sandbox()
    serve_page(hostile, 8080)
    start_program(other)
    log_in(browser, warren)
    page = Port(hostile, 8080).url
    results = visit(browser, f"{page}page?other={Port(other, 8080).prefix}/echo")
    for name in SECRET:
        assert results[name].startswith("refused ") or (name == "opener" and results[name] == 'got "none"'), (name, results[name])
    assert results["origin"] == 'got "null"'
    assert results["blind"] == 'got "opaque"'
    # What it needs of its own it has.
    assert results["own file"] == 'got "PUT"'
    assert results["own socket"] == 'got "hello"'
    assert results["own events"] == 'got "0"'
    assert results["own module"] == 'got "yes"'
    text = json.dumps(results)
    assert warren.key not in text and "secret" not in text
    # And the login is as it was.
    browser.get(warren.url + "/")
    assert browser.execute_script("return [localStorage.getItem('warren_key'), document.cookie]") == [warren.key, "login=secret"]


def test_by_host_name_a_page_has_an_origin_of_its_own(browser, start_server_with_domain):
    warren, sandbox = start_server_with_domain
    log_in(browser, warren)
    port = Port(sandbox, 8080)
    results = visit(browser, port.url + "page")
    assert results["origin"] == json.dumps(port.url.rstrip("/")).join(["got ", ""])
    # All that a page of its own may have, it has, and it is its own.
    assert results["local storage"] == "got null" and results["cookie"] == 'got ""'
    assert results["own file"] == 'got "PUT"' and results["own socket"] == 'got "hello"' and results["own module"] == 'got "yes"'
    # Its own address leads to the program, never to the API.
    assert results["api"] == "got 200" and warren.key not in json.dumps(results)


@pytest.fixture
def start_server_with_domain(start_server):
    warren = start_server(ports={"domain": "sandboxes.test"})
    sandbox = warren.client.create()
    serve_page(sandbox, 8080)
    return warren, sandbox


def test_a_private_page_opens_with_its_token_once(browser, warren, make_sandbox):
    sandbox = make_sandbox()
    serve_page(sandbox, 8080)
    port = Port(sandbox, 8080, "private")
    browser.get(port.url + "echo")
    assert "this port is private" in browser.page_source
    browser.get(port.url + f"echo?warren_port_token={port.token}")
    assert port.token not in browser.current_url and '"method": "GET"' in browser.find_element("tag name", "body").text
    browser.get(port.url + "echo?again")
    assert "/echo?again" in browser.find_element("tag name", "body").text
    assert port.token not in browser.page_source
