"""The strings of test/golden/text_*: sentences of our own in many languages, code, and deterministic compositions of everything that
makes tokenizers differ."""
import random
import unicodedata

SENTENCES = [
    "The lighthouse keeper counted seventeen ships before the fog rolled in.",
    "I'm sure they'll say we've lost it, but she'd know; don't you think it's late?",
    "HE'S SURE THEY'LL SAY WE'VE LOST IT, BUT SHE'D KNOW; DON'T YOU THINK IT'S LATE?",
    "\u2018Tis the rock\u2019n\u2019roll spirit\u2026 they\u2019re \u201cback\u201d \u2014 aren\u2019t they?",
    "Dr. O'Neill-Smith paid $1,234.56 (roughly \u20ac1.100,00) for 3/4 of the 2nd-hand piano at 10:45 a.m.",
    "Der Schlüssel fürs Gartenhäuschen hängt übrigens neben der größten Öllampe.",
    "L'été dernier, nous avons goûté des crêpes près de l'église où chantait Zoë.",
    "El pingüino soñó que mañana volaría más rápido; ¿quién lo duda? ¡Nadie!",
    "A avó não põe açúcar no café, só três maçãs cozidas à tardinha.",
    "Perché l'acqua del lago è così fredda già a metà settembre?",
    "Zażółć gęślą jaźń, powiedział żółw i poszedł na łąkę.",
    "Příliš žluťoučký kůň ležel u řeky a čekal na déšť.",
    "Işık ışığı ararken İstanbul'da yağmur çoğaldı.",
    "Mưa rơi suốt đêm trên mái nhà tôn cũ của bà ngoại ở Huế.",
    "Háromszor csöngetett, mégsem jött ki senki az öreg fűtőházból.",
    "Åsa köpte färska ägg på ön, men båten gick redan klockan åtta.",
    "Þórður sá æðarfugl við höfnina og skrifaði það niður.",
    "Старый почтальон ещё помнил, где живёт каждая кошка на этой улице.",
    "Їжак з'їв яблуко, а ґава дивилася на щось у небі.",
    "Ο ψαράς ξύπνησε νωρίς και άκουσε τη θάλασσα να ψιθυρίζει.",
    "كانت القطة تراقب العصفور من نافذة المطبخ، ثم نامت في الساعة ٣:٤٥.",
    "גִּנָּה קטנה מאחורי הבית, ובה שלושה עצי לימון ותפוז אחד.",
    "پسرک بادبادکش را گم کرد، اما می‌خندید و ۱۲ بار دوید.",
    "नदी के किनारे बैठा बूढ़ा मछुआरा रोज़ २५ कहानियाँ सुनाता था।",
    "পুরোনো ট্রেনটা আজও ঠিক সময়ে ছেড়ে যায়, যাত্রী মাত্র ৭ জন।",
    "மழை நின்றதும் குழந்தைகள் தெருவில் காகிதப் படகு விட்டனர்.",
    "పాత గడియారం మళ్ళీ మోగింది కానీ ఎవరూ వినలేదు.",
    "ตลาดเช้าวันนี้มีมะม่วงสุกราคา ๔๐ บาทต่อกิโลกรัม",
    "ຝົນຕົກຕອນແລງ ແລະ ແມວນອນຢູ່ໃຕ້ໂຕະ",
    "ផ្ទះតូចមួយនៅជិតទន្លេមានដើមស្វាយបី។",
    "မနက်စောစော ငှက်သံကြားလို့ နိုးလာတယ်။",
    "ძველი მეზღვაური ყოველ საღამოს ზღვას უყურებდა.",
    "Ծեր այգեպանը ջրում էր խնձորենիները և երգում։",
    "ልጅቷ በጠዋት ተነስታ ቡና አፈላች።",
    "老渔夫每天清晨三点起床，划船去看日出。",
    "圖書館的貓，總是睡在第 42 號書架上！",
    "窓の外では、ネコが雨どいを歩いている。ｶﾞｯｺｳは８時から。",
    "할머니는 매일 아침 마당에서 고양이 세 마리에게 밥을 준다.",
    "Хөгшин морь нар жаргахад уулын зүг харав.",
    "Mzee alisimulia hadithi ya sungura na fisi usiku kucha.",
    "Ọjà náà kún fún ẹja tútù àti ọ̀pọ̀lọpọ̀ ata.",
    "\U00010330\U00010331\U00010332 \U0001D4D0\U0001D4D1\U0001D7D8\U0001D7D9 \U00020000\U00020001 \U0001F1E9\U0001F1EA",
]

CODE = [
    "def tally(items: list[int]) -> dict[int, int]:\n    \"\"\"Count.\"\"\"\n    out = {}\n    for i in items:\n\tout[i] = out.get(i, 0) + 1\n    return out\n",
    "#include <stdio.h>\r\nint main(void)\r\n{\r\n\tfor (int i = 0; i < 10; ++i)\r\n\t\tprintf(\"%d\\n\", i*i);\r\n\treturn 0;\r\n}\r\n",
    "const f = async ({a, b = 2}) => { await g(`${a}-${b}`); return a?.b ?? null; };  // done\n",
    "fn main() { let v: Vec<u8> = (0..=255).collect(); println!(\"{:?}\", &v[..4]); }",
    "SELECT name, COUNT(*) AS n FROM ships WHERE year >= 1999 AND flag <> 'NO' GROUP BY name HAVING n > 3;",
    "<ul class=\"x\">\n  <li>&lt;one&gt;</li>\n\n\n  <li data-n='2'/>\n</ul>\n<!-- end -->",
    "{\"id\": 17, \"tags\": [\"a\", \"b\\u00e9\"], \"ok\": true, \"ratio\": -1.5e-3, \"none\": null}",
    "find . -name '*.wgsl' | xargs grep -n \"dot4I8Packed\" > /tmp/out.txt 2>&1 && echo $? || exit 1",
    "| a | b |\n|---|---:|\n| 1 | 2 |\n\n## Title\n\n* item\n  * sub\n\n```c\nx <<= 3;\n```\n",
    "if (x != y) {\n        x ^= y; y ^= x; x ^= y;\n\n\n        }\n\t\t\n",
    "https://example.org/a/b.html?q=1&r=%20two#frag mailto:someone@example.org 192.168.0.1:8080 ::1",
    "\\frac{\\partial u}{\\partial t} = \\alpha \\nabla^2 u \\quad \\forall x \\in \\Omega",
    "public static <T extends Comparable<? super T>> void sort(List<T> l) throws IOException {}",
    "x=1;y=22;z=333;w=4444;v=55555;u=666666;t=7777777;s=88888888;r=999999999",
]

EMOJI = [
    "\U0001F600", "\U0001F44D\U0001F3FD", "\U0001F468\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466", "\u2764\uFE0F\u200D\U0001F525",
    "\U0001F3F3\uFE0F\u200D\U0001F308", "\U0001F1EB\U0001F1F7", "\U0001F9D1\U0001F3FF\u200D\U0001F680", "\u0031\uFE0F\u20E3", "\u2603",
    "\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F",
]
DIGITS = ["0", "7", "42", "123", "1234", "2024", "31415926", "\u0663\u0664", "\u06F1\u06F2\u06F3\u06F4", "\u0966\u096F", "\u0E51\u0E52", "\uFF18\uFF19",
          "\u00B2\u00B3", "\u2167", "\u216B\u2170", "\u2460\u2461", "\u00BD", "\u3007", "\u4E00", "\U0001D7CE\U0001D7FF", "\U00010140", "\u1369"]
SPACES = [" ", "  ", "   ", "        ", "\t", "\t\t", " \t ", "\n", "\n\n", "\n\n\n\n", "\r\n", "\r\n\r\n", "\r", " \n", "\n ", "  \n\n  ", "\v", "\f", "\u0085",
          "\u00A0", "\u00A0\u00A0", "\u1680", "\u2003", "\u2009\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000", "\u3000 ", " \u3000"]
INVISIBLE = ["\u200B", "\u200C", "\u200D", "\u2060", "\uFEFF", "\u00AD", "\u180E", "\u202E", "\u2066", "\uFFF9"]
CONTROLS = [chr(c) for c in [*range(0, 9), *range(14, 32), 0x7F, *range(0x80, 0x85), *range(0x86, 0xA0)]]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'vE", "'M", "'LL", "'lL", "'D", "'\u017F", "\u2019s", "'x", "''s", "'r", "'l",
                "'st", "'R\u0112", "' s", "'\u017Ft", "'v", "'L", "'\u212A"]
MARKS = ["\u0301", "\u0308", "\u0323", "\u0327", "\u0338", "\u0345", "\u05B4", "\u064B", "\u093C", "\u094D", "\u0E48", "\u1DC4", "\u20D0", "\u302A", "\u3099",
         "\U0001D165", "\U0001E8D0"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["...", "--", "!!!", "\u2014", "\u2026", "\u00BF", "\u3002", "\uFF01", "\u20AC", "\u00A7", "\u2192", "\u2264"]
SPECIAL_LIKE = ["<|im_end|", "|im_end|>", "<|im_end |>", "<|IM_END|>", "<|im_<|im_end|>end|>", "<|endoftext|><|endoftext|>", "<|eot_id|>", "<||>"]

# Blocks to draw letters and symbols from, a bit of everything.
BLOCKS = [(0x20, 0x7E), (0xA1, 0xFF), (0x100, 0x24F), (0x250, 0x2FF), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F), (0x5D0, 0x5F4), (0x600, 0x6FF), (0x900, 0x97F),
          (0xB80, 0xBFF), (0xE01, 0xE5B), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F),
          (0x2070, 0x20CF), (0x2100, 0x214F), (0x2190, 0x23FF), (0x2500, 0x25FF), (0x2C00, 0x2C5F), (0x3040, 0x30FF), (0x3400, 0x34FF), (0x4E00, 0x9FFF), (0xA000, 0xA0FF),
          (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xF900, 0xFAFF), (0xFE20, 0xFE2F), (0xFF00, 0xFFEF), (0x10000, 0x100FF), (0x10400, 0x1044F), (0x1D100, 0x1D1FF),
          (0x1D400, 0x1D7FF), (0x1F300, 0x1F6FF), (0x20000, 0x200FF), (0x2F800, 0x2FA1F), (0xE0100, 0xE01EF)]


def is_plain(char):
    """Visible on its own, in left-to-right text."""
    return unicodedata.category(char)[0] in "LNPS" and unicodedata.bidirectional(char) not in ("R", "AL") and unicodedata.normalize("NFC", char) == char


def words():
    return [w for s in SENTENCES for w in s.split(" ")]


def any_char(rng):
    low, high = rng.choice(BLOCKS)
    return chr(rng.randint(low, high))


def composition(rng, special):
    """A string of a few parts of any kinds."""
    vocabulary = words()
    kinds = [lambda: rng.choice(vocabulary), lambda: rng.choice(vocabulary), lambda: rng.choice(SPACES), lambda: " ", lambda: rng.choice(DIGITS),
             lambda: str(rng.randint(0, 10 ** rng.randint(1, 9))), lambda: rng.choice(PUNCTUATION), lambda: rng.choice(CONTRACTIONS), lambda: rng.choice(EMOJI),
             lambda: rng.choice(MARKS), lambda: rng.choice(CONTROLS), lambda: rng.choice(INVISIBLE), lambda: "".join(any_char(rng) for _ in range(rng.randint(1, 4))),
             lambda: rng.choice(rng.choice(CODE).split(" ")), lambda: rng.choice(special + SPECIAL_LIKE)]
    weights = [6, 6, 5, 6, 4, 2, 4, 4, 2, 2, 1, 1, 3, 3, 1]
    return "".join(kind() for kind in rng.choices(kinds, weights, k=rng.randint(2, 9)))


def class_edges():
    """The code points where letter, number or white space begin or end, each between neighbours of other kinds."""
    def group(c):
        category = unicodedata.category(chr(c))
        return "S" if chr(c).isspace() and not 0x1C <= c <= 0x1F else category[0] if category[0] in "LN" else "O"
    edges, last = [], group(0)
    for c in range(1, 0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        now = group(c)
        if now != last:
            edges += [c - 1, c] if c != 0xE000 else [c]
        last = now
    edges = sorted(set(edges))
    contexts = ["a{}b ", " {}1", "1{}. ", ".{}'s", " {}{} "]
    for i in range(0, len(edges), 10):
        yield "".join(contexts[k % 5].format(chr(c), chr(c)) for k, c in enumerate(edges[i:i + 10], i // 10))


def normal_forms(rng):
    """What NFC changes: every canonical decomposition, both ways, and marks in any order."""
    decomposable = [c for c in range(0x110000) if unicodedata.decomposition(chr(c)) and not unicodedata.decomposition(chr(c)).startswith("<")]
    for i in range(0, len(decomposable), 24):
        some = "".join(map(chr, decomposable[i:i + 24]))
        yield some
        if some[0] < "\uF900":
            yield unicodedata.normalize("NFD", some)
    for sentence in SENTENCES:
        if unicodedata.normalize("NFD", sentence) != sentence:
            yield unicodedata.normalize("NFD", sentence)
    marks = [chr(c) for c in range(0x300, 0x11A00) if unicodedata.combining(chr(c))]
    for _ in range(80):
        yield "".join(rng.choice("aeoqAK\u00E9\u1EA5\u03B1\u0928\uAC00\u1100") + "".join(rng.choices(marks, k=rng.randint(0, 5))) for _ in range(5))
    for _ in range(20):
        yield "".join(chr(rng.choice([rng.randint(0x1100, 0x1112), rng.randint(0x1161, 0x1175), rng.randint(0x11A7, 0x11C2), 0xAC00, 0xAC01])) for _ in range(8))


def broken(rng, texts):
    """UTF-8 cut off, with bytes missing, changed or put in."""
    for _ in range(120):
        data = bytearray(rng.choice(texts).encode()[:60])
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            what = rng.randrange(4)
            if what == 0:
                del data[at]
            elif what == 1:
                data[at] = rng.randrange(256)
            elif what == 2:
                data.insert(at, rng.choice([0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xF5, 0xFF]))
            else:
                del data[at + 1:]
            if not data:
                data = bytearray(b"\xE2\x82")
        yield bytes(data)


def long_words():
    yield "a" * 700
    yield "ab" * 300
    yield "Donaudampfschifffahrtsgesellschaftskapitän" * 12
    yield " " * 300
    yield " " * 299 + "x"
    yield "\n" * 200
    yield "9" * 250
    yield "=" * 300
    yield "\u4E00" * 150
    yield "the" * 200 + " " + "in" * 100


def strings(special):
    """All of them, as bytes, without repetition."""
    rng = random.Random(20240607)
    out = ["a", " ", "\n", "'", "'s", " '", *SENTENCES, *CODE, *EMOJI, *DIGITS, *SPACES, *INVISIBLE, *CONTROLS, *CONTRACTIONS, *special, *SPECIAL_LIKE]
    for a in CONTRACTIONS:
        out += ["it" + a, "it" + a + "x", " " + a + " "]
    for a in SPACES:
        out += ["x" + a, a + "x", "x" + a + "1", "." + a + ".", a + "'s"]
    for a in DIGITS:
        out += ["x" + a + "x", " " + a + ".", a + a + a + a]
    for name in special:
        out += ["a" + name, name + " b", f"say \"{name}\"\n{name}{name}", name[:-1], "<" + name]
    out += ["quartz", " jukebox", "quartz jukeboxes", "    x", "\t quartz", "\u00E9t\u00E9", "e\u0301te\u0301", "     xyz"]
    out += class_edges()
    out += normal_forms(rng)
    out += long_words()
    out += [" ".join(rng.sample(words(), rng.randint(3, 9))) for _ in range(150)]
    out += [rng.choice(CODE)[rng.randint(0, 30):][:rng.randint(10, 60)] for _ in range(80)]
    composed = [composition(rng, special) for _ in range(900)]
    out += composed
    return list(dict.fromkeys([s.encode() for s in out] + list(broken(rng, SENTENCES + composed))))


def broken_utf8():
    rng = random.Random(5)
    yield from broken(rng, SENTENCES)
    for _ in range(200):
        yield bytes(rng.choice([0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF])
                    for _ in range(rng.randint(1, 12)))


def conversations():
    user, system, assistant = (lambda role: lambda text: {"role": role, "content": text})("user"), None, None
    system, assistant = (lambda text: {"role": "system", "content": text}), (lambda text: {"role": "assistant", "content": text})
    yield [user("Why is the sea salty?")]
    yield [system("You answer in one word."), user("Is snow warm?")]
    yield [user("Hi"), assistant("Hello! How can I help?"), user("Sing.")]
    yield [system(""), user("")]
    yield [user("\n\nleading lines"), assistant(" leading space"), user("trailing lines\n\n\n")]
    yield [user("\n"), assistant("\r\n"), user("   ")]
    yield [user("1 + 1 = 2\n\n\t2 + 2 = 4"), assistant("'s"), system("a system text in the middle"), user("end")]
    yield [assistant("I speak first."), user("So?")]
    for sentence in SENTENCES[::4]:
        yield [system(sentence), user(sentence[::-1]), assistant(sentence), user(sentence.upper())]
    for code in CODE[::3]:
        yield [user(code), assistant(code), user("Shorter, please.")]
