// connect-redis: sessions of express that are made, read, renewed, listed and ended.
const assert = require('node:assert');
const { RedisStore } = require('connect-redis');
const { createClient } = require('redis');

async function round(store) {
  const session = (visits) => ({ cookie: { originalMaxAge: 60000 }, visits });
  await store.set('ada', session(1));
  await store.set('ada', session(2));
  assert.strictEqual((await store.get('ada')).visits, 2);
  await store.touch('ada', session(2));
  assert.strictEqual(await store.length(), 1);
  assert.deepStrictEqual(await store.ids(), ['ada']);
  assert.strictEqual((await store.all()).length, 1);
  await store.set('bob', session(1));
  await store.destroy('ada');
  await store.clear();
  assert.strictEqual(await store.get('bob'), null);
}

exports.use = async function* use(url) {
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  const store = new RedisStore({ client });
  try {
    await round(store);
    yield;
    await round(store);
  } finally {
    client.destroy();
  }
};
