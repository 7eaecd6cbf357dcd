// Records the dispatches of a step in Chrome, and times them again kernel by kernel with the GPU's clock, as `forerun bench --profile` does
// natively (cli/profile.c). Loaded in front of the engine's worker: it wraps the methods of WebGPU that the engine calls.

const PASS_MS = 20, WARM_MS = 400, MOST_DISPATCHES = 4096, STEPS = 16;

let device, clock, clockAt, readback;
let recording = null; // while a step is waited for: `skip`, command buffers to let pass first
let recorded = null;
let backup = null; // the state as the recorded step found it
const states = new WeakMap(); // bind group > its buffer, if that is the state

function wrap(type, name, make) {
  const plain = type.prototype[name];
  type.prototype[name] = make(plain);
}

wrap(GPUAdapter, "requestDevice", plain => async function (descriptor = {}) {
  const features = [...(descriptor.requiredFeatures ?? []), ...(this.features.has("timestamp-query") ? ["timestamp-query"] : [])];
  device = await plain.call(this, { ...descriptor, requiredFeatures: features });
  return device;
});
wrap(GPUDevice, "createBindGroup", plain => function (descriptor) {
  const group = plain.call(this, descriptor);
  for (const entry of descriptor.entries) if (entry.resource.buffer?.label === "state") states.set(group, entry.resource.buffer);
  return group;
});
wrap(GPUCommandEncoder, "beginComputePass", plain => function (descriptor) {
  if (recording?.state && recording.skip === 0 && recorded === null) {
    recorded = [];
    backup ??= device.createBuffer({ size: recording.state.size, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
    this.copyBufferToBuffer(recording.state, 0, backup, 0, recording.state.size);
  }
  const pass = plain.call(this, descriptor);
  if (recording && recorded) recording.pass ??= pass;
  return pass;
});
const current = { pipeline: null, groups: [] };
wrap(GPUComputePassEncoder, "setPipeline", plain => function (pipeline) {
  if (recording) current.pipeline = pipeline;
  return plain.call(this, pipeline);
});
wrap(GPUComputePassEncoder, "setBindGroup", plain => function (index, group, ...offsets) {
  if (recording) {
    const [list, start, length] = offsets; // a list, or a place in a Uint32Array
    current.groups[index] = { group, offsets: length === undefined ? [...(list ?? [])] : [...list.subarray(start, start + length)] };
    recording.state ??= states.get(group);
  }
  return plain.call(this, index, group, ...offsets);
});
wrap(GPUComputePassEncoder, "dispatchWorkgroups", plain => function (x, y = 1, z = 1) {
  if (recording && recorded && recording.pass === this)
    recorded.push({ kernel: current.pipeline.label, pipeline: current.pipeline, groups: current.groups.map(g => ({ ...g })), x, y, z });
  return plain.call(this, x, y, z);
});
wrap(GPUQueue, "submit", plain => function (buffers) {
  if (recording && buffers.length && recording.state) {
    if (recorded) recording = null;
    else if (recording.skip) recording.skip--;
  }
  return plain.call(this, buffers);
});

// ---- timing

/** Milliseconds of one pass over `list`, from the recorded state. */
async function time(list) {
  clock ??= device.createQuerySet({ type: "timestamp", count: 2 });
  clockAt ??= device.createBuffer({ size: 16, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
  readback ??= device.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(backup, 0, states.get(recordedState(list)), 0, backup.size);
  const pass = encoder.beginComputePass({ timestampWrites: { querySet: clock, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 } });
  let pipeline = null;
  const bound = [];
  for (const d of list) { // as the engine does: what has not changed is not set again
    if (d.pipeline !== pipeline) pass.setPipeline(pipeline = d.pipeline);
    d.groups.forEach((g, i) => {
      if (bound[i]?.group === g.group && String(bound[i].offsets) === String(g.offsets)) return;
      pass.setBindGroup(i, g.group, g.offsets);
      bound[i] = g;
    });
    pass.dispatchWorkgroups(d.x, d.y, d.z);
  }
  pass.end();
  encoder.resolveQuerySet(clock, 0, 2, clockAt, 0);
  encoder.copyBufferToBuffer(clockAt, 0, readback, 0, 16);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const [start, end] = new BigUint64Array(readback.getMappedRange().slice(0));
  readback.unmap();
  return Number(end - start) / 1e6;
}
const recordedState = list => list[0].groups.map(g => g.group).find(g => states.has(g));

const repeated = (list, count) => Array.from({ length: count }, (_, i) => list[i % list.length]);

/** Dispatches for a pass of about PASS_MS. */
async function choose(list) {
  let count = 1, ms;
  while ((ms = await time(repeated(list, count))) < PASS_MS / 4 && count < MOST_DISPATCHES) count *= 4;
  return Math.max(1, Math.min(MOST_DISPATCHES, Math.floor((count * PASS_MS) / ms)));
}

async function profile(repeats, cpu) {
  const step = recorded;
  const kernels = new Map();
  for (const d of step) { // a kernel has a pipeline for each kind of matrix
    if (!kernels.has(d.pipeline)) kernels.set(d.pipeline, { kernel: d.kernel, list: [], samples: [[], []] });
    kernels.get(d.pipeline).list.push(d);
  }
  const steps = repeated(step, step.length * (cpu ? 1 : STEPS)), step_samples = [];
  for (const since = performance.now(); performance.now() - since < WARM_MS;) await time(steps);
  const all = [...kernels.values()];
  for (const k of all) k.counts = [await choose(k.list), await choose(k.list.slice(0, 1))];
  for (let r = 0; r < repeats; r++) {
    for (let i = 0; i < all.length; i++) {
      const k = all[(i + r) % all.length];
      for (const one of [0, 1]) k.samples[one].push((1000 * await time(repeated(one ? k.list.slice(0, 1) : k.list, k.counts[one]))) / k.counts[one]);
    }
    step_samples.push((await time(steps)) / (steps.length / step.length));
  }
  return { dispatches: step.length, step_samples, kernels: all.map(k => ({ kernel: k.kernel, grid: `${k.list[0].x}x${k.list[0].y}x${k.list[0].z}`, dispatches: k.list.length, samples: k.samples })) };
}

// ---- the page's wishes

const channel = new BroadcastChannel("profile");
channel.onmessage = async ({ data }) => {
  try {
    if (data.record !== undefined) {
      recorded = backup = null;
      recording = { skip: data.record, state: null, pass: null };
    }
    if (data.profile && !device.features.has("timestamp-query")) throw new Error("the adapter has no clock (timestamp-query)");
    if (data.profile && (recording || !recorded?.length)) throw new Error("no step was recorded");
    channel.postMessage({ answer: data.profile ? await profile(data.profile, data.cpu) : true });
  } catch (e) {
    channel.postMessage({ error: String(e.stack ?? e) });
  }
};
