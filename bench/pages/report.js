// What the pages of the suite share: reports to its server, and a GPU that is awake.

const round = (key, value) => (typeof value === "number" && !Number.isInteger(value) ? Number(value.toFixed(4)) : value);

/** Posts one object; resolves when the suite has it, and has sampled memory where it wants to. */
export async function say(object) {
  await fetch("/log", { method: "POST", body: JSON.stringify(object, round) });
}

export const done = () => fetch("/done", { method: "POST", body: "" });

/** The first request of a fresh browser may find no adapter, and not every engine asks again. */
export async function adapterReady() {
  for (let i = 0; i < 12; i++) {
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
    if (adapter) {
      const { vendor, architecture, description } = adapter.info;
      return { adapter: [vendor, architecture, description].filter(Boolean).join(" "), shader_f16: adapter.features.has("shader-f16") };
    }
    await new Promise(resolve => setTimeout(resolve, 700));
  }
  return { adapter: null, shader_f16: false };
}
