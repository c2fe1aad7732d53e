// The two official client libraries behind one small interface.
//
// What a test asks for comes as JSON in the first argument:
//   library    "sdk" (the earlier era) or "client" (both eras)
//   era        "modern", "legacy" or "auto"; for "client" only
//   transport  "http" or "stdio"
//   url, key   of the server; for "http"
//   program, env   what to start; for "stdio"
import assert from 'node:assert/strict';
import * as sdk from '@modelcontextprotocol/sdk/client/index.js';
import * as sdkHttp from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as sdkStdio from '@modelcontextprotocol/sdk/client/stdio.js';
import * as client from '@modelcontextprotocol/client';
import * as clientStdio from '@modelcontextprotocol/client/stdio';

export const asked = JSON.parse(process.argv[2]);

const negotiation = {
  modern: { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  auto: { versionNegotiation: { mode: 'auto' } },
  legacy: {},
};

export async function connect(spec = asked) {
  const info = { name: 'warren-tests', version: '1' };
  const headers = { Authorization: `Bearer ${spec.key}` };
  const old = spec.library === 'sdk';
  const Http = old ? sdkHttp.StreamableHTTPClientTransport : client.StreamableHTTPClientTransport;
  const Stdio = old ? sdkStdio.StdioClientTransport : clientStdio.StdioClientTransport;
  const one = old ? new sdk.Client(info) : new client.Client(info, negotiation[spec.era]);
  const transport = spec.transport === 'http'
    ? new Http(new URL(spec.url), { requestInit: { headers } })
    : new Stdio({ command: spec.program, args: ['mcp'], env: { ...process.env, ...spec.env }, stderr: 'inherit' });
  // The earlier library tells what was agreed on to nobody but its transport.
  let agreed;
  const pass = transport.setProtocolVersion?.bind(transport);
  if (old) transport.setProtocolVersion = (version) => { agreed = version; pass?.(version); };
  await one.connect(transport);
  return {
    raw: one,
    transport,
    era: old ? 'legacy' : one.getProtocolEra(),
    version: old ? agreed : one.getNegotiatedProtocolVersion(),
    // Before the first call: from then on the library holds every result to its schema.
    listTools: async () => (await one.listTools()).tools,
    call: (name, args, options) => old
      ? one.callTool({ name, arguments: args }, undefined, options)
      : one.callTool({ name, arguments: args }, options),
    close: () => one.close(),
  };
}

// The structured content of a call that went well.
export function good(result) {
  assert.ok(!result.isError, `the call failed: ${JSON.stringify(result.content)}`);
  return result.structuredContent;
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits until `holds` does.
export async function eventually(what, holds, ms = 15000) {
  for (const end = Date.now() + ms; Date.now() < end; await pause(100)) if (await holds()) return;
  assert.fail(`this never came to hold: ${what}`);
}

// How many processes of the sandbox run `sleep SECONDS`; the one that looks is none of them.
export async function sleepers(one, sandbox_id, seconds) {
  const script = `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '[s]leep ${seconds} ' | wc -l`;
  const result = good(await one.call('run_bash', { sandbox_id, command: script }));
  return Number(result.stdout.trim());
}
