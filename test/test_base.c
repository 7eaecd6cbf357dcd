/* test_base.c: errors and lines. */
#include "base/error.h"
#include "base/line.h"
#include "test/test.h"

static void lines(void)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"a\nb\tc\x1b[31m\x7f", "a b c [31m "},
        {"\xc2\x9b"
         "31m \xc2\xa0\xc3\xa9",
         " 31m \xc2\xa0\xc3\xa9"},           /* C1's CSI; no-break space stays */
        {"\xe6\x97\xa5\xf0\x9f\x98\x80", "\xe6\x97\xa5\xf0\x9f\x98\x80"},
        {"a\xe6\x97", "a"},                                                   /* cut */
        {"a\xf0\x9f\x98", "a"},
        {"a\xc3", "a"},
        {"a\xe6\x97"
         "b\xff\x80",
         "a??b??"},
        {"\xc0\xaf\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80\xf5", "??"
                                                                 "???"
                                                                 "???"
                                                                 "????"
                                                                 "?"}, /* overlong, surrogate, too large */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[64];
        fr_line_copy(line, sizeof line, cases[i].in, strlen(cases[i].in));
        CHECK_MSG(!strcmp(line, cases[i].out), "case %zu: \"%s\", expected \"%s\"", i, line, cases[i].out);
    }
    char small[6];
    fr_line_copy(small, sizeof small, "abcd\xc3\xa9", 6);
    CHECK_STR(small, "abcd");
    fr_line_copy(small, sizeof small, "abc\xc3\xa9g", 6);
    CHECK_STR(small, "abc\xc3\xa9");
    fr_line_copy(small, sizeof small, NULL, 0);
    CHECK_STR(small, "");
}

static void errors(void)
{
    fr_error_text e = {0};
    CHECK_INT(fr_fail(&e, FR_BAD_MODEL, "key \"%s\"", "a\nb\x9b"), FR_BAD_MODEL);
    CHECK_STR(e.text, "key \"a b?\"");
    CHECK_INT(fr_fail(&e, FR_FAILED, "later"), FR_FAILED);
    CHECK_INT(e.status, FR_BAD_MODEL); /* the first one stays */
    CHECK_STR(e.text, "key \"a b?\"");
    for (size_t lead = 0; lead < 4; lead++) { /* however the end falls */
        char text[600] = "xxx";
        size_t n = lead;
        while (n + 3 < sizeof text)
            for (size_t i = 0; i < 3; i++)
                text[n++] = "\xe6\x97\xa5"[i];
        text[n] = 0;
        e = (fr_error_text){0};
        fr_fail(&e, FR_FAILED, "%s", text);
        n = strlen(e.text);
        CHECK(n > sizeof e.text - 5 && n < sizeof e.text && (n - lead) % 3 == 0 && !memcmp(e.text, text, n));
    }
}

const fr_test base_tests[] = {
    {"base.lines", "bytes from files as one line of UTF-8 without control characters", lines},
    {"base.errors", "the first error stays, one line, whole code points", errors},
    {0},
};
