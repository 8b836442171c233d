// bee-queue: jobs now, later, failing and retried; progress; a worker; health.
const assert = require('node:assert');
const Queue = require('bee-queue');
const redis = require('redis');

const settings = (url) => ({ redis: { url }, activateDelayedJobs: true, removeOnSuccess: true, delayedDebounce: 10 });

function make(url) {
  const queue = new Queue('mail', settings(url));
  queue.on('error', () => {});
  return queue;
}

const finished = (job) => new Promise((resolve, reject) => {
  job.on('succeeded', resolve);
  job.on('failed', reject);
});

async function run(queue, data, change = (job) => job) {
  const job = change(queue.createJob(data));
  const result = finished(job);
  await job.save();
  return result;
}

async function round(queue, number) {
  await queue.ready();
  await queue.createJob({ first: 0, second: 0 }).save();
  const runs = [];
  queue.process(async (job) => {
    if (!job.data.key) return job.data.first + job.data.second;
    runs.push(job.data.key);
    if (runs.filter((key) => key === job.data.key).length === 1) throw new Error('the first time');
    return job.data.key;
  });
  assert.strictEqual(await run(queue, { first: 1, second: number }), 1 + number);
  assert.strictEqual(await run(queue, { key: number }, (job) => job.retries(1)), number);
  const later = Date.now() + 30;
  assert.strictEqual(await run(queue, { first: 2, second: number }, (job) => job.delayUntil(later)), 2 + number);
  await queue.saveAll([1, 2].map((first) => queue.createJob({ first, second: 1 })));
  assert.strictEqual((await queue.checkHealth()).failed, 0);
}

exports.use = async function* use(url) {
  const queues = [make(url)];
  try {
    await round(queues[0], 1);
    yield;
    // bee-queue loads its scripts once: after a restart of Redis it needs a new queue, with Keyrail or without.
    await assert.rejects(queues[0].createJob({ first: 0, second: 0 }).save(), /NOSCRIPT|AbortError|UncertainStateError/);
    await queues[0].close(0).catch(() => {});
    queues.push(make(url));
    await round(queues[1], 2);
  } finally {
    for (const queue of queues) await queue.close(0).catch(() => {});
  }
};
