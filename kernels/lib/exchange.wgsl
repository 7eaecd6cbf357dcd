// What the workgroups of one dispatch hand each other. WGSL promises that every workgroup sees the writes to an atomic word, but no order between
// two words. So each word tells by itself that it was written: before the dispatch all are EMPTY, which is no float but a NaN that nothing makes,
// no pair of finite f16, and no four codes, since codes don't go down to -128. Whoever needs a word reads it until it is there.
// WGSL does not promise either that a workgroup runs while another one waits. So nobody waits for ever: after TRIES it is LOST, nobody waits
// any more, and the step, which goes on with whatever is there, counts as not made (advance.wgsl).
const LOST_AT = 0u; // word of the exchange: not EMPTY if somebody gave up
@group(0) @binding(8) var<storage, read_write> exchange: array<atomic<u32>>;
var<workgroup> inbox: array<vec4u, INBOX>;
var<workgroup> gave_up: u32;

fn hand_out(at: u32, word: u32) { atomicStore(&exchange[at], word); }
fn hand_out_words(at: u32, words: vec4u) {
    hand_out(at, words.x);
    hand_out(at + 1u, words.y);
    hand_out(at + 2u, words.z);
    hand_out(at + 3u, words.w);
}

// Another try to take a word; false when it is time to give up.
fn try_again(tries: ptr<function, u32>) -> bool {
    *tries += 1u;
    if (*tries < TRIES && ((*tries & 63u) != 63u || atomicLoad(&exchange[LOST_AT]) == EMPTY)) {
        return true;
    }
    atomicStore(&exchange[LOST_AT], 1u); // the others need not wait as long
    gave_up = 1u;
    return false;
}
// Takes `count` words from `at` on into the inbox at word `to`; of each `whole` words the first `used`. Every thread of the workgroup calls it, and
// workgroupBarrier() after it. Of one or two nodes, a word at a time is faster than several under way.
fn take(lid: u32, at: u32, count: u32, to: u32, used: u32, whole: u32) {
    var i = lid;
    for (; N >= 4u && i + WG < count; i += 2u * WG) {
        let a = at + i / used * whole + i % used;
        let b = at + (i + WG) / used * whole + (i + WG) % used;
        var tries = 0u;
        var words = vec2u(atomicLoad(&exchange[a]), atomicLoad(&exchange[b]));
        while (any(words == vec2u(EMPTY)) && try_again(&tries)) {
            words = vec2u(atomicLoad(&exchange[a]), atomicLoad(&exchange[b]));
        }
        put(to + i, words.x);
        put(to + i + WG, words.y);
    }
    for (; i < count; i += WG) {
        let here = at + i / used * whole + i % used;
        var tries = 0u;
        var word = atomicLoad(&exchange[here]);
        while (word == EMPTY && try_again(&tries)) {
            word = atomicLoad(&exchange[here]);
        }
        put(to + i, word);
    }
}
fn put(i: u32, word: u32) { inbox[i >> 2u][i & 3u] = word; }
