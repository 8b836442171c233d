// socket.io with its Redis adapter: two servers that reach each other's rooms, find each other's sockets and answer.
const assert = require('node:assert');
const http = require('node:http');
const { createAdapter } = require('@socket.io/redis-adapter');
const Redis = require('ioredis');
const { Server } = require('socket.io');

async function server(url) {
  const clients = [new Redis(url), new Redis(url)];
  for (const client of clients) client.on('error', () => {});
  const io = new Server(http.createServer());
  io.adapter(createAdapter(...clients));
  io.on('greeting', (name, answer) => answer(`hello ${name}`));
  const { adapter } = io.of('/');
  const heard = [];
  adapter._encode = (packet) => { heard.push(packet.data); return []; };
  return { io, clients, heard };
}

async function until(condition) {
  const deadline = Date.now() + 20000;
  while (!await condition()) {
    if (Date.now() > deadline) throw new Error('it did not come about');
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
}

async function round(first, second, number) {
  await until(async () => await first.io.of('/').adapter.serverCount() === 2);
  second.io.of('/').adapter.addAll('ada', new Set(['room']));
  first.io.to('room').emit('news', number);
  await until(() => second.heard.some((data) => data[0] === 'news' && data[1] === number));
  assert.deepStrictEqual(await second.io.serverSideEmitWithAck('greeting', 'ada'), ['hello ada']);
  assert.deepStrictEqual(await first.io.in('room').fetchSockets(), []);
}

exports.use = async function* use(url) {
  const servers = [await server(url), await server(url)];
  try {
    await round(...servers, 1);
    yield;
    await round(...servers, 2);
  } finally {
    for (const { clients } of servers) for (const client of clients) client.disconnect();
  }
};
