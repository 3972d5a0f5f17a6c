/* Names of reducers. Those of NCCL are two lists, "nccl:ring,tree/ll128": algorithms, protocols, or
 * both, as the variables NCCL_ALGO and NCCL_PROTO take them (NVIDIA/nccl v2.30.7-1,
 * src/graph/tuning.cc, parseList): in any case, '^' before a list for all but these. A kind says
 * which bits of both lists are set (LW_REDUCER_NCCL_LISTS); a list of all is none. */
#include "shared/strategy/reducer_kind.h"

#include <ctype.h>
#include <string.h>

/* Bit i of a list is word i. NCCL writes CollNetDirect, CollNetChain and NVLSTree. */
static const char *const algorithms[] = {"tree", "ring", "collnet-direct", "collnet-chain", "nvls",
                                         "nvls-tree", "pat", NULL};
static const char *const protocols[] = {"ll", "ll128", "simple", NULL};

#define IS(id, word, is) is,
static const char *const plain[] = {LW_REDUCERS(LW_ROW_REDUCER_WORD)};
static const unsigned plain_is[] = {LW_REDUCERS(IS)};

unsigned lw_reducer_is(enum lw_reducer_kind r)
{
    return r < LW_REDUCER_NCCL ? plain_is[r] : 0;
}

/* Every name is a constant: A of one list of algorithms, L7 of all lists in the order of their
 * bits. */
#define A(s, comma) {"nccl:" s, "nccl:" s "/ll", "nccl:" s "/ll128", "nccl:" s "/ll,ll128", \
                     "nccl:" s "/simple", "nccl:" s "/ll,simple", "nccl:" s "/ll128,simple", \
                     "nccl:" s}
#define L1(s, comma) A(s, comma), A("tree" comma s, ",")
#define L2(s, comma) L1(s, comma), L1("ring" comma s, ",")
#define L3(s, comma) L2(s, comma), L2("collnet-direct" comma s, ",")
#define L4(s, comma) L3(s, comma), L3("collnet-chain" comma s, ",")
#define L5(s, comma) L4(s, comma), L4("nvls" comma s, ",")
#define L6(s, comma) L5(s, comma), L5("nvls-tree" comma s, ",")
#define L7(s, comma) L6(s, comma), L6("pat" comma s, ",")
static const char *const lists[LW_N_NCCL_ALGORITHM_LISTS][LW_N_NCCL_PROTOCOL_LISTS] = {L7("", "")};
static const char *const protocol_lists[LW_N_NCCL_PROTOCOL_LISTS] = {
    "nccl", "nccl:ll", "nccl:ll128", "nccl:ll,ll128", "nccl:simple", "nccl:ll,simple",
    "nccl:ll128,simple", "nccl"};

/* The kinds that followed LW_REDUCER_NCCL when each had a row of its own, in that order. */
static const int16_t former[] = {
    LW_REDUCER_NCCL_RING, LW_REDUCER_NCCL_LISTS(2, 1), LW_REDUCER_NCCL_LISTS(2, 2),
    LW_REDUCER_NCCL_LISTS(2, 4), LW_REDUCER_NCCL_TREE, LW_REDUCER_NCCL_LISTS(1, 1),
    LW_REDUCER_NCCL_LISTS(1, 2), LW_REDUCER_NCCL_LISTS(1, 4), LW_REDUCER_NCCL_COLLNET_DIRECT,
    LW_REDUCER_NCCL_COLLNET_CHAIN, LW_REDUCER_NCCL_NVLS, LW_REDUCER_NCCL_NVLS_TREE,
    LW_REDUCER_NCCL_PAT, LW_REDUCER_NCCL_LL, LW_REDUCER_NCCL_LL128, LW_REDUCER_NCCL_SIMPLE,
    LW_REDUCER_NCCL_CAL};

/* Rows before the first number of NCCL, as they were when plans were first hashed. */
enum { N_FIRST_ROWS = LW_REDUCER_PAIRWISE + 1, N_FIRST = N_FIRST_ROWS + LW_N_NCCL_LISTS + 1 };

int lw_reducer_number(enum lw_reducer_kind r)
{
    int list = (int)r - (int)LW_REDUCER_NCCL;

    if (list < 0) /* a row that was added later comes after all numbers of lists */
        return (int)r < N_FIRST_ROWS ? (int)r : 2 * N_FIRST + (int)r;
    for (int i = 0; i < (int)(sizeof former / sizeof *former); i++)
        if (former[i] == (int)r)
            return N_FIRST_ROWS + 1 + i;
    return list == 0 ? N_FIRST_ROWS : N_FIRST + N_FIRST_ROWS + list;
}

const char *lw_reducer_name(enum lw_reducer_kind r)
{
    unsigned both = (unsigned)r - LW_REDUCER_NCCL, a = both / LW_N_NCCL_PROTOCOL_LISTS;

    if (r < LW_REDUCER_NCCL)
        return plain[r];
    if (r == LW_REDUCER_NCCL_CAL)
        return "nccl+cal";
    return a ? lists[a][both % LW_N_NCCL_PROTOCOL_LISTS] : protocol_lists[both];
}

/* The same letters in any case, '-' and '_' left out; b has no capitals. */
static bool same_word(const char *a, size_t n, const char *b)
{
    const char *end = a + n;

    for (; a < end; a++) {
        if (*a == '-' || *a == '_')
            continue;
        b += *b == '-';
        if (tolower((unsigned char)*a) != *b++)
            return false;
    }
    return *b == '\0';
}

/* The bits of a list that ends at `end`; 0: not such a list. */
static unsigned bits_of(const char *text, const char *end, const char *const *words)
{
    bool others = text < end && *text == '^';
    unsigned bits = 0, all = 0;

    for (int i = 0; words[i]; i++)
        all |= 1u << i;
    for (text += others; text <= end; text++) {
        size_t n = 0;
        int i = 0;
        while (text + n < end && text[n] != ',')
            n++;
        while (words[i] && !same_word(text, n, words[i]))
            i++;
        if (!words[i])
            return 0;
        bits |= 1u << i;
        text += n;
    }
    return others ? all & ~bits : bits;
}

/* nccl:LIST or nccl:LIST/LIST. */
static bool parse_lists(const char *text, enum lw_reducer_kind *kind)
{
    const char *slash = strchr(text, '/'), *end = text + strlen(text);
    unsigned a = bits_of(text, slash ? slash : end, algorithms);
    unsigned p = slash ? bits_of(slash + 1, end, protocols) : a ? 0 : bits_of(text, end, protocols);

    if (slash ? !a || !p : !a && !p)
        return false;
    *kind = LW_REDUCER_NCCL_LISTS(a == LW_N_NCCL_ALGORITHM_LISTS - 1 ? 0 : a,
                                  p == LW_N_NCCL_PROTOCOL_LISTS - 1 ? 0 : p);
    return true;
}

/* The function that a name before ':' means; LW_N_NCCL_FUNCTIONS: none. */
static int function_of(const char *text, size_t n)
{
    static const char *const functions[LW_N_NCCL_FUNCTIONS] = {
        "broadcast", "reduce", "all-gather", "reduce-scatter", "all-reduce"};
    int f = 0;

    while (f < LW_N_NCCL_FUNCTIONS && !same_word(text, n, functions[f]))
        f++;
    return f;
}

bool lw_nccl_lists(const char *text, bool is_protocols, uint8_t left[LW_N_NCCL_FUNCTIONS])
{
    const char *const *words = is_protocols ? protocols : algorithms;
    const char *at = text;

    memset(left, is_protocols ? LW_N_NCCL_PROTOCOL_LISTS - 1 : LW_N_NCCL_ALGORITHM_LISTS - 1,
           LW_N_NCCL_FUNCTIONS);
    for (size_t n; *at; at += n + (at[n] == ';')) {
        n = strcspn(at, ";");
        size_t name = strcspn(at, ":;");
        bool named = at[name] == ':';
        int f = named ? function_of(at, name) : 0;
        unsigned bits = bits_of(named ? at + name + 1 : at, at + n, words);
        if (bits == 0 || f == LW_N_NCCL_FUNCTIONS || (!named && at > text))
            return false;
        memset(left + f, (int)bits, named ? 1 : LW_N_NCCL_FUNCTIONS);
    }
    return true;
}

bool lw_reducer_find(const char *name, enum lw_reducer_kind *kind)
{
    static const char nccl[] = "nccl:";

    for (int k = 0; k < LW_N_REDUCERS; k = k < LW_REDUCER_NCCL ? k + 1 : k + LW_N_NCCL_LISTS)
        if (same_word(name, strlen(name), lw_reducer_name((enum lw_reducer_kind)k))) {
            *kind = (enum lw_reducer_kind)k;
            return true;
        }
    return strncmp(name, nccl, strlen(nccl)) == 0 && parse_lists(name + strlen(nccl), kind);
}
