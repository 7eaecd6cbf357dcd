// Largest logit with its id (the lowest of equals) and the second largest value. Ids are exact as f32 below 2^24.
struct Best {
    value: f32,
    id: f32,
    second: f32,
}
const NO_LOGIT = -3.4e38;
fn best_none() -> Best { return Best(NO_LOGIT, 0.0, NO_LOGIT); }
fn best_of(a: Best, b: Best) -> Best {
    if (b.value > a.value || (b.value == a.value && b.id < a.id)) {
        return Best(b.value, b.id, max(a.value, b.second));
    }
    return Best(a.value, a.id, max(a.second, b.value));
}
