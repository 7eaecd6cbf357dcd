// Where lib/codes puts what it makes: the quantised activations.
fn put_word(at: u32, k: u32, word: u32) { act[at][k] = word; }
fn put_words(at: u32, words: vec4u) { act[at] = words; }
