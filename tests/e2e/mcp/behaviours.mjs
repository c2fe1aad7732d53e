// Progress, cancellation and lost connections, as the client libraries live them.
import assert from 'node:assert/strict';
import http from 'node:http';
import { asked, connect, eventually, good, sleepers } from './clients.mjs';

// Passes everything on to the server, until cut() breaks every connection there is.
async function cuttable(target) {
  const sockets = new Set();
  const server = http.createServer((request, response) => {
    const onward = http.request({ host: target.hostname, port: target.port, method: request.method, path: request.url,
                                  headers: request.headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  server.on('connection', (socket) => { sockets.add(socket); socket.on('close', () => sockets.delete(socket)); });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/mcp`,
    cut: () => { for (const socket of sockets) socket.destroy(); },
    close: () => { server.close(); server.closeAllConnections(); },
  };
}

const behaviours = {
  async progress(one, sandbox_id) {
    const heard = [];
    const begun = Date.now();
    const result = good(await one.call(
      'run_bash', { sandbox_id, command: 'for i in 1 2 3; do echo step $i; sleep 0.5; done' },
      { onprogress: (progress) => heard.push({ ...progress, at: Date.now() - begun }) }));
    assert.equal(result.stdout, 'step 1\nstep 2\nstep 3\n');
    const text = heard.map((progress) => progress.message).join('');
    assert.match(text, /step 1\n[^]*step 2\n[^]*step 3\n/);
    assert.ok(heard[0].at < 1000, `the first came after ${heard[0].at} ms`);
    for (let i = 1; i < heard.length; ++i) assert.ok(heard[i].progress > heard[i - 1].progress);
  },

  async cancellation(one, sandbox_id) {
    const abort = new AbortController();
    const call = one.call('run_bash', { sandbox_id, command: 'sleep 86399' }, { signal: abort.signal });
    await eventually('the command runs', async () => await sleepers(one, sandbox_id, 86399) > 0);
    abort.abort('enough');
    await assert.rejects(call);
    await eventually('the command is gone', async () => await sleepers(one, sandbox_id, 86399) === 0);

    good(await one.call('run_python', { sandbox_id, code: 'kept = 1' }));
    const python = new AbortController();
    const slow = one.call('run_python', { sandbox_id, code: "open('/tmp/begun', 'w'); import time; time.sleep(86399)" },
                          { signal: python.signal });
    const begun = async () => !(await one.call('run_bash', { sandbox_id, command: 'test -e /tmp/begun' })).isError;
    await eventually('the Python call runs', begun);
    python.abort('enough');
    await assert.rejects(slow);
    const after = good(await one.call('run_python', { sandbox_id, code: 'kept + 1' }, { timeout: 20000 }));
    assert.equal(after.result['text/plain'], '2');
  },

  // The earlier era: the call goes on, and the client gets its answer by coming back.
  async resumption() {
    const proxy = await cuttable(new URL(asked.url));
    const one = await connect({ ...asked, url: proxy.url });
    assert.equal(one.era, 'legacy');
    const { sandbox_id } = good(await one.call('create_sandbox', {}));
    const heard = [];
    const call = one.call('run_bash', { sandbox_id, command: 'echo before; sleep 4; echo after' },
                          { onprogress: (progress) => heard.push(progress.message) });
    await eventually('the first output', () => heard.join('').includes('before'));
    proxy.cut();
    assert.equal(good(await call).stdout, 'before\nafter\n');
    good(await one.call('destroy_sandbox', { sandbox_id }));
    await one.close();
    proxy.close();
  },

  // The current era: a lost connection is a cancelled call.
  async lost() {
    const proxy = await cuttable(new URL(asked.url));
    const cut = await connect({ ...asked, url: proxy.url });
    const one = await connect();
    assert.equal(one.era, 'modern');
    const { sandbox_id } = good(await one.call('create_sandbox', {}));
    const call = cut.call('run_bash', { sandbox_id, command: 'sleep 86398' }, { timeout: 5000 });
    const ended = assert.rejects(call);
    await eventually('the command runs', async () => await sleepers(one, sandbox_id, 86398) > 0);
    proxy.cut();
    await eventually('the command is gone', async () => await sleepers(one, sandbox_id, 86398) === 0);
    await ended;
    good(await one.call('destroy_sandbox', { sandbox_id }));
    await one.close();
    await cut.close();
    proxy.close();
  },

  // Several calls of one client at once; each gets its own answer.
  async concurrency(one, sandbox_id) {
    const numbers = [...Array(20).keys()];
    const results = await Promise.all(numbers.map((i) =>
      one.call('run_bash', { sandbox_id, command: `sleep 0.${i % 5}; echo ${i}` })));
    assert.deepEqual(results.map((result) => good(result).stdout), numbers.map((i) => `${i}\n`));
  },
};

if (['resumption', 'lost'].includes(asked.behaviour)) {
  await behaviours[asked.behaviour]();
} else {
  const one = await connect();
  await one.listTools();
  const { sandbox_id } = good(await one.call('create_sandbox', {}));
  await behaviours[asked.behaviour](one, sandbox_id);
  good(await one.call('destroy_sandbox', { sandbox_id }));
  await one.close();
}
console.log('ok');
