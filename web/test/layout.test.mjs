// Every offset, size and number that the TypeScript takes from C, against the headers, for wasm32.

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkC, source } from "./helpers.mjs";

const { layout, callbackInfos, names } = await source("webgpu_layout");
const enums = await source("forerun_names");

const same = (expression, value, name) => `_Static_assert(${expression} == ${value}, "${name}");`;

function structAsserts(tables) {
  return Object.entries(tables).flatMap(([struct, fields]) => Object.entries(fields).map(([field, offset]) =>
    same(field === "sizeof" ? `sizeof(${struct})` : `offsetof(${struct}, ${field})`, offset, `${struct}.${field}`)));
}

const head = ["#include <stddef.h>", "#include <webgpu/webgpu.h>", "#include \"forerun.h\""];

test("layout: structs of webgpu.h", () => {
  const callbacks = callbackInfos.flatMap(info => ["callback", "userdata1", "userdata2"].map(field =>
    same(`offsetof(${info}, ${field})`, `offsetof(WGPUBufferMapCallbackInfo, ${field})`, `${info}.${field}`)));
  checkC([...head, ...structAsserts(layout), ...callbacks].join("\n"));
});

test("layout: enums of webgpu.h", () => {
  const asserts = Object.entries(names).flatMap(([type, values]) => Object.entries(values).map(([name, [number]]) => same(`${type}_${name}`, number, `${type}_${name}`)));
  checkC([...head, ...asserts, same("WGPU_STRLEN", "0xffffffff", "WGPU_STRLEN"), same("WGPU_QUERY_SET_INDEX_UNDEFINED", "0xffffffff", "query index")].join("\n"));
});

test("layout: enums of forerun.h, all of them", () => {
  const prefix = { status: "FR_", state: "FR_STATE_", mode: "FR_MODE_", scope: "FR_SCOPE_", finish: "FR_FINISH_", stat: "FR_STAT_", info: "FR_INFO_" };
  const asserts = Object.entries(prefix).flatMap(([name, p]) => Object.entries(enums[name]).map(([key, number]) => same(p + key, number, p + key)));
  const last = { stat: "FR_STAT_LOST_STEPS", mode: "FR_MODE_ADAPTIVE", scope: "FR_SCOPE_NONE", info: "FR_INFO_COSTS" }; // a value behind these must be added to the tables
  for (const [name, value] of Object.entries(last)) asserts.push(same(value, Object.keys(enums[name]).length - 1, `${name} is complete`));
  checkC([...head, ...asserts].join("\n"));
});

test("layout: a wrong number is noticed, by name", () => {
  assert.throws(() => checkC([...head, ...structAsserts({ WGPUBufferDescriptor: { size: 20 } })].join("\n")), /WGPUBufferDescriptor\.size/);
});
