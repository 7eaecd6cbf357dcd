/* main.c: forerun <verb>. Exit status and error line are the same for all verbs: see fr_status. */
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"

static const fr_verb verbs[] = {
    {"run", "Answers a prompt. Text goes to standard output as it comes, statistics to standard error.",
     "MODEL [-p TEXT | -f FILE] [--page FILE]... [options]",
     "Without -p and -f the prompt is read from standard input. Ctrl-C ends the answer; twice ends the program.\n", fr_verb_run},
    {"bench", "Measures a model: milliseconds a token in each mode, a step of each width, prefill, loading.", "MODEL [options]",
     "Modes and widths take turns on the same prompt and must give the same tokens. Trees draft without session memory, which would know\n"
     "the answer. T(N) is a step over N nodes; T(1) is one of loop. Numbers are medians; all samples are listed.\n",
     fr_verb_bench},
    {"info", "Tells what a model file holds and what the adapter offers. Reads the file's header only.", "[MODEL] [options]",
     "Facts about the file need no GPU; without a MODEL the adapter alone is described.\n", fr_verb_info},
    {"tokenize", "Prints the tokens of a text: one line for each, its id and its text. Needs no GPU.",
     "MODEL [-p TEXT | -f FILE] [options]", "Without -p and -f the text is read from standard input.\n", fr_verb_tokenize},
    {"compare", "Answers the prompts of a token log in every mode: all must give the same tokens. Tells what each mode gains.",
     "MODEL --log LOG [options]",
     "LOG has a line of \"forerun run --json\" for each prompt, perhaps with a \"task\" added; its answers don't matter. Tokens, steps\n"
     "and times leave out the first token, which the prompt's last step yields. Exit status 1 if an answer differs.\n",
     fr_verb_compare},
    {"sim", "Replays a token log and tells how many tokens a step each drafter would yield. Needs no GPU and no model.", "LOG [options]",
     "LOG has a line of \"forerun run --json\" for each answer, perhaps with a \"task\" added (- for standard input). Memory holds\n"
     "what earlier lines put out, with the last 8 tokens of their prompts. Every figure is given twice: over outputs cut where they\n"
     "start to loop (16 tokens come a third time), and over whole outputs. The first token, which the prefill yields, does not count.\n"
     "--control takes of the options above it --memory and --shuffle alone.\n\n"
     "  lookup   prompt lookup: copies what followed the longest match, the latest of several\n"
     "  suffix   suffix tree with counts: the suffix length whose tree promises most\n"
     "  mixing   context mixing: all orders at every node, with weights learnt online\n"
     "  fixed    the drafter of the device: matches of all orders, blended with fixed weights\n",
     fr_verb_sim},
    {"selftest", "Compares every kernel with its twin on the CPU, and wide steps with single ones, on this machine's adapter.", "[options]",
     NULL, fr_verb_selftest},
};
enum { FR_VERBS = sizeof verbs / sizeof *verbs };

static void print_usage(FILE *out)
{
    fputs("usage: forerun VERB ...\n\n", out);
    for (size_t i = 0; i < FR_VERBS; i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\n\"forerun VERB --help\" lists a verb's options; \"forerun --version\" prints the version.\n"
          "Exit status: 0 done, 1 the run failed, 2 wrong arguments, 3 bad or unsupported model, 4 no usable GPU.\n",
          out);
}

static fr_status run_verb(const char *name, int argc, char **argv, fr_error_text *err)
{
    for (size_t i = 0; i < FR_VERBS; i++)
        if (!strcmp(name, verbs[i].name))
            return verbs[i].run(&verbs[i], argc, argv, err);
    if (!name[0])
        return fr_fail(err, FR_BAD_ARGUMENT, "no verb; \"forerun --help\" lists them");
    return fr_fail(err, FR_BAD_ARGUMENT, "no verb \"%.40s\"; \"forerun --help\" lists them", name);
}

static fr_status dispatch(int argc, char **argv, fr_error_text *err)
{
    static char help[] = "--help";
    const char *word = argc > 1 ? argv[1] : "";
    if (!strcmp(word, "help") && argc > 2)
        return run_verb(argv[2], 1, (char *[]){help}, err);
    if (!strcmp(word, help) || !strcmp(word, "-h") || !strcmp(word, "help")) {
        print_usage(stdout);
        return FR_OK;
    }
    if (!strcmp(word, "--version")) {
        puts("forerun " FR_VERSION);
        return FR_OK;
    }
    return run_verb(word, argc - 2, argv + 2, err);
}

int main(int argc, char **argv)
{
    fr_error_text err = {0};
    fr_status status = dispatch(argc, argv, &err);
    if (fr_flush(&err) != FR_OK && status == FR_OK)
        status = FR_FAILED;
    if (err.text[0])
        fprintf(stderr, "forerun: %s\n", err.text);
    return (int)status;
}
