"""A session's process as small as can be, for tests of the agent: speaks the runner's
side of the protocol and runs code with exec(). Some code words make it misbehave."""

import json
import os
import signal
import sys
import threading

source, target = os.dup(3), os.dup(4)
os.close(3)
os.close(4)
scope = {}


def send(**message):
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(target, (json.dumps(message) + "\n").encode())


def run(call, code):
    exit_code, interrupted = 0, False
    try:
        try:
            value = eval(code, scope)
            if value is not None:
                send(op="result", id=call, data={"text/plain": repr(value)})
        except SyntaxError:
            exec(code, scope)
    except KeyboardInterrupt:
        exit_code, interrupted = 130, True
    except SystemExit as end:
        exit_code = end.code
    except BaseException as error:
        exit_code = 1
        send(op="error", id=call, name=type(error).__name__, value=str(error), traceback="")
    send(op="done", id=call, exit_code=exit_code, interrupted=interrupted)


scope.update(send=send, os=os, sys=sys, threading=threading, signal=signal, source=source, target=target)
if "--fail" in sys.argv:
    sys.exit("this interpreter is broken")
signal.signal(signal.SIGINT, lambda *_: None)
send(op="ready", python="0")
buffer = b""
while True:
    chunk = os.read(source, 65536)
    if not chunk:
        break
    buffer += chunk
    while b"\n" in buffer:
        line, buffer = buffer.split(b"\n", 1)
        message = json.loads(line)
        scope["call"] = message["id"]
        os.environ.update(message.get("env", {}))
        if "cwd" in message:
            os.chdir(message["cwd"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run(message["id"], message["code"])
        signal.signal(signal.SIGINT, lambda *_: None)
