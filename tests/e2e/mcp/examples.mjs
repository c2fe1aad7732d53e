// The two examples of the skill file that Warren's own is modelled on.
import assert from 'node:assert/strict';
import { asked, connect, good } from './clients.mjs';

const one = await connect();
assert.equal(one.era, asked.expect.era);
assert.equal(one.version, asked.expect.version);

const tools = await one.listTools();
const names = tools.map((tool) => tool.name);
for (const name of ['create_sandbox', 'run_python', 'run_bash', 'upload', 'download', 'destroy_sandbox',
                    'list_sandboxes', 'list_files', 'fork', 'merge_into']) assert.ok(names.includes(name), name);

// Basic usage.
{
  const { sandbox_id } = good(await one.call('create_sandbox', { template: 'default' }));
  const code = 'import statistics; print(statistics.stdev([1,2,3,4,5,6,7,8,9,10]))';
  const run = await one.call('run_python', { sandbox_id, code });
  assert.equal(good(run).stdout, '3.0276503540974917\n');
  assert.match(run.content[0].text, /3\.0276503540974917/);
  assert.equal(good(await one.call('destroy_sandbox', { sandbox_id })).destroyed, true);
  const gone = await one.call('run_python', { sandbox_id, code });
  assert.equal(gone.isError, true);
  assert.match(gone.content[0].text, /sandbox_id/);
}

// Tree of thought: what is expensive is loaded once; each branch starts from it.
{
  const { sandbox_id } = good(await one.call('create_sandbox', {}));
  good(await one.call('run_python', { sandbox_id, code: 'data = [i * i for i in range(1000)]' }));
  const { children } = good(await one.call('fork', { sandbox_id, n: 3 }));
  assert.equal(children.length, 3);
  const branches = ['min(data)', 'sum(data)', 'max(data)'];
  const scores = await Promise.all(children.map(async (child, i) => {
    const code = `score = ${branches[i]}\nscore`;
    return good(await one.call('run_python', { sandbox_id: child, code })).result['text/plain'];
  }));
  assert.deepEqual(scores, ['0', '332833500', '998001']);
  const merged = await one.call('merge_into', { parent_id: sandbox_id, winner_id: children[1] });
  assert.equal(good(merged).sandbox_id, sandbox_id);
  const run = good(await one.call('run_python', { sandbox_id, code: '(score, len(data))' }));
  assert.equal(run.result['text/plain'], '(332833500, 1000)');
  const gone = await one.call('run_python', { sandbox_id: children[1], code: 'score' });
  assert.equal(gone.isError, true);
  for (const loser of [children[0], children[2]]) good(await one.call('destroy_sandbox', { sandbox_id: loser }));

  const content_base64 = Buffer.from('größer\n\xff', 'latin1').toString('base64');
  const path = '/root/some folder/ä.bin';
  good(await one.call('run_bash', { sandbox_id, command: "mkdir -p '/root/some folder'" }));
  good(await one.call('upload', { sandbox_id, path, content_base64 }));
  assert.equal(good(await one.call('download', { sandbox_id, path })).content_base64, content_base64);
  const listed = good(await one.call('list_files', { sandbox_id, path: '/root/some folder' }));
  assert.deepEqual(listed.entries.map((entry) => entry.name), ['ä.bin']);

  const failed = await one.call('run_bash', { sandbox_id, command: 'echo out; echo err >&2; exit 7' });
  assert.equal(failed.isError, true);
  assert.equal(failed.structuredContent.exit_code, 7);
  assert.match(failed.content[0].text, /out[^]*err/);

  assert.equal(good(await one.call('destroy_sandbox', { sandbox_id })).destroyed, true);
}

await assert.rejects(() => one.call('no_such_tool', { n: 2 }), (error) => Number(error.code) === -32602);

if (asked.transport === 'stdio') {
  // A sandbox of one's own, made when it is first needed.
  const before = good(await one.call('list_sandboxes', {})).sandboxes.length;
  good(await one.call('run_python', { code: 'x = 41' }));
  assert.equal(good(await one.call('run_python', { code: 'x + 1' })).result['text/plain'], '42');
  assert.equal(good(await one.call('list_sandboxes', {})).sandboxes.length, before + 1);
}
await one.close();
console.log('ok');
