"""What the templates have in them."""


def test_default_has_what_agents_expect(module_sandbox):
    for program in ("python3", "pip", "ipython3", "git", "curl", "node", "npm", "gcc", "g++", "make", "ps", "ip"):
        option = "-V" if program in ("ip", "ps") else "--version"
        assert module_sandbox.bash_ok(f"{program} {option}"), program
    assert module_sandbox.bash_ok("test -s /etc/ssl/certs/ca-certificates.crt && echo there") == "there\n"
    assert "pip" in module_sandbox.bash_ok("python3 -m venv /tmp/venv && /tmp/venv/bin/pip --version")


def test_python_datasci_has_its_libraries(make_sandbox):
    sandbox = make_sandbox(template="python-datasci")
    run = sandbox.python("import numpy, pandas, scipy.stats, matplotlib.pyplot as plt\n"
                         "frame = pandas.DataFrame({'a': numpy.arange(4)})\n"
                         "plt.plot(frame.a); print(scipy.stats.describe(frame.a).mean)")
    assert run.code == 0 and run.stdout == b"1.5\n", run
    assert any("image/png" in one for one in run.displays + run.results), run


def test_building_a_template_again_does_nothing(warren):
    done = warren.command("template", "build", "default")
    assert done.returncode == 0, done
    assert "mmdebstrap" not in done.stdout + done.stderr
