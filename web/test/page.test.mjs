// The demo page, used as a visitor would: load, ask, stop, ask again, on a tiny random model.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openSite } from "./site.mjs";

let site, page;
const failures = [];
before(async () => {
  site = await openSite();
  page = await site.browser.newPage({ viewport: { width: 1200, height: 860 } });
  page.setDefaultTimeout(120_000);
  page.on("pageerror", e => failures.push(e.message));
  await page.goto(site.url);
  await page.waitForSelector("html[data-open]");
});
after(() => site?.close());

const ready = () => page.waitForSelector('html[data-state="ready"]', { timeout: 300_000 });
const answers = () => page.locator(".message.assistant");
/** Resolves when the conversation has `count` answers, all complete. */
const answered = count => page.waitForFunction(count => document.documentElement.dataset.state === "ready"
  && document.querySelectorAll(".message.assistant:not(.writing)").length === count, count);

test("page: opens with the article, the adapter and the model's name", async () => {
  assert.match(await page.inputValue("#page"), /^How tide mills work/);
  assert.match(await page.textContent("#adapter"), /swiftshader/i);
  assert.equal(await page.textContent("#served"), "tiny.gguf");
  assert.equal(await page.isDisabled("#summarise"), true);
});

test("page: an empty address is asked for, a bad one is explained", async () => {
  await page.check("input[value=url]", { force: true });
  await page.click("#load");
  assert.match(await page.textContent("#banner"), /address/);
  await page.fill("#url", `${site.url}nothing.gguf`);
  await page.click("#load");
  await page.waitForFunction(() => document.getElementById("banner").textContent.includes("404"));
  assert.equal(await page.getAttribute("html", "data-state"), "idle");
  await page.check("input[value=served]", { force: true });
});

test("page: loads, and says so", async () => {
  await page.click("#load");
  await ready();
  assert.equal(await page.isHidden("#banner"), true);
  assert.match(await page.textContent("#progress-text"), /^Ready/);
  assert.equal(await page.isEnabled("#summarise"), true);
});

test("page: a question is answered, and what the model writes stays text", async () => {
  await page.fill("#page", "<img src=x onerror=alert(1)>"); // short: the tiny model's context is
  await page.fill("#input", "<b>bold</b>");
  await page.press("#input", "Enter");
  await answered(1);
  assert.notEqual(await answers().first().textContent(), "");
  assert.equal(await page.locator(".message b, .message img").count(), 0);
  assert.match(await page.textContent("#stats"), /Dispatches per step/);
});

test("page: stop ends the answer, and the next one is complete", async () => {
  await page.selectOption("#length", "768");
  await page.fill("#page", "");
  let text = "";
  for (let k = 1; k <= 5 && !text.endsWith("Stopped."); k++) { // an answer may end by itself before the press gets there
    await page.evaluate(k => { // pressed from within, with the first word
      const watch = new MutationObserver(() => {
        if (!document.querySelectorAll(".message.assistant")[k]?.textContent) return;
        watch.disconnect();
        document.getElementById("stop").click();
      });
      watch.observe(document.body, { childList: true, subtree: true, characterData: true });
    }, k);
    await page.fill("#input", `again ${k}`);
    await page.click("#send");
    await answered(k + 1);
    text = await answers().nth(k).textContent();
  }
  assert.match(text, /Stopped\.$/);
  await page.click("#clear");
  assert.equal(await answers().count(), 0);
  await page.selectOption("#length", "64");
  await page.click("#summarise");
  await answered(1);
  assert.deepEqual(failures, []);
});

test("page: fits a small screen and can be seen", async () => {
  for (const width of [360, 768, 1200]) {
    await page.setViewportSize({ width, height: 860 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `no sideways scrolling at ${width}`);
  }
  const picture = await page.screenshot();
  assert.ok(picture.length > 20_000, "more than an empty page");
});

test("page: every control has a name", async () => {
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, textarea")]
    .filter(e => !e.textContent.trim() && !e.getAttribute("aria-label") && !e.labels?.length).map(e => e.outerHTML));
  assert.deepEqual(nameless, []);
});
