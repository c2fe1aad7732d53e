// The conformance suite has no way to send a key: this stands before the server and
// adds it. Host and Origin stay as they come, since the suite tests them.
//   node auth_proxy.mjs TARGET_PORT KEY   prints the port it listens on
import http from 'node:http';

const [target, key] = process.argv.slice(2);
const server = http.createServer((request, response) => {
  const headers = [...request.rawHeaders];
  if (!request.headers.authorization) headers.push('Authorization', `Bearer ${key}`);
  const onward = http.request({ host: '127.0.0.1', port: Number(target), method: request.method, path: request.url,
                                headers, agent: false, setHost: false }, (answer) => {
    response.writeHead(answer.statusCode, answer.rawHeaders);
    answer.pipe(response);
    answer.on('error', () => response.destroy());
  });
  onward.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
// Ends with whoever started it.
process.stdin.on('end', () => process.exit(0)).resume();
