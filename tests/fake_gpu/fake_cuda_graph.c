/* A test fixture: the fake driver's stream capture and graphs.
 *
 * A capture takes what is given to its streams, a lane for each. A record in it is a mark, a wait
 * for such a record a join; a stream enters a capture when it waits for a mark. As in CUDA these
 * fail, and spoil the capture: a wait for work outside of it, a query or allocation by the thread
 * that captures (thread-local mode), an end before all lanes are joined to the origin. A launch
 * is one command of its stream: all lanes begin, each on a thread of its own, and it ends when all
 * have. Events recorded with CU_EVENT_RECORD_EXTERNAL are those outside of the graph; until its
 * launch they look as they did before. */
#include "tests/fake_gpu/fake_cuda.h"


enum { MAX_LANES = 128, MAX_MARKS = 1 << 16 };

struct kept {
    struct kept *next;
    void (*drop)(void *);
    void *p;
};

struct lane {
    CUgraph graph;
    int stream; /* number */
    int n;
    struct fake_command *head, **tail;
};

struct mark {
    int lane, at; /* which of its commands */
    bool done;    /* in the launch under way */
    struct fake_bell is_done;
};

struct CUgraph_st {
    int users; /* itself, executables, launches */
    int n_lanes, n_marks;
    struct lane lane[MAX_LANES];
    struct mark mark[MAX_MARKS];
    struct kept *kept;
};

struct CUgraphExec_st {
    CUgraph graph;
};

struct fake_capture {
    struct fake_capture *next;
    uint64_t number;
    CUstream origin;
    CUstream streams[MAX_LANES];
    CUgraph graph;
    bool spoilt;
};

int fake_n_graphs;
static struct fake_capture *captures; /* under way */
static uint64_t n_captures;
static __thread struct fake_capture *mine;

static CUresult spoil(struct fake_capture *k, CUresult r) /* the lock is held */
{
    if (k)
        k->spoilt = true;
    return r;
}

CUresult fake_enter_unsafe(const char *call)
{
    CUresult r = fake_enter(call);

    if (r != CUDA_SUCCESS || !mine)
        return r;
    mine->spoilt = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void fake_append(CUstream s, struct fake_command *c)
{
    struct lane *l = &s->capture->graph->lane[s->lane];

    *l->tail = c;
    l->tail = &c->next;
    l->n++;
}

static void enter_capture(struct fake_capture *k, CUstream s)
{
    CUgraph g = k->graph;

    if (g->n_lanes == MAX_LANES)
        abort();
    s->capture = k;
    s->lane = g->n_lanes++;
    k->streams[s->lane] = s;
    g->lane[s->lane] = (struct lane){.graph = g, .stream = s->id, .tail = &g->lane[s->lane].head};
}

static struct fake_capture *under_way(uint64_t number)
{
    struct fake_capture *k = captures;

    while (k && k->number != number)
        k = k->next;
    return k;
}

CUresult fake_wait_captured(CUstream s, CUevent e, bool *done)
{
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&fake_lock);
    struct fake_capture *k = e->captured ? under_way(e->captured) : NULL;
    *done = s->capture || e->captured;
    if (e->captured && !k)
        r = spoil(s->capture, CUDA_ERROR_CAPTURED_EVENT);
    else if (s->capture && s->capture != k)
        r = spoil(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    else if (k) {
        struct fake_command *c = fake_command_new(JOIN, 0);
        if (!s->capture)
            enter_capture(k, s);
        c->mark = e->mark;
        fake_append(s, c);
    }
    pthread_mutex_unlock(&fake_lock);
    return r;
}

CUresult fake_record_captured(CUstream s, CUevent e, bool external, bool *done)
{
    pthread_mutex_lock(&fake_lock);
    *done = s->capture != NULL;
    e->captured = s->capture && !external ? s->capture->number : 0;
    if (s->capture) {
        CUgraph g = s->capture->graph;
        struct fake_command *c = fake_command_new(external ? RECORD : MARK, 0);
        c->event = e;
        if (g->n_marks == MAX_MARKS)
            abort();
        if (!external) {
            c->mark = e->mark = g->n_marks++;
            g->mark[c->mark] = (struct mark){.lane = s->lane, .at = g->lane[s->lane].n};
        }
        fake_append(s, c);
    }
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode)
{
    CUresult r = fake_enter("cuStreamBeginCapture");

    if (r != CUDA_SUCCESS)
        return r;
    if (mine || s->capture || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct fake_capture *k = calloc(1, sizeof *k);
    k->graph = calloc(1, sizeof *k->graph);
    k->graph->users = 1;
    k->origin = s;
    pthread_mutex_lock(&fake_lock);
    fake_n_graphs++;
    k->number = ++n_captures;
    enter_capture(k, s);
    k->next = captures;
    captures = mine = k;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* From the end of the origin's lane back over joins: is every lane's last command reached? */
static bool joined(CUgraph g)
{
    int reached[MAX_LANES] = {g->lane[0].n};
    bool more = true;

    while (more) {
        more = false;
        for (int i = 0; i < g->n_lanes; i++) {
            int at = 0;
            for (const struct fake_command *c = g->lane[i].head; c && at < reached[i]; at++) {
                if (c->kind == JOIN && reached[g->mark[c->mark].lane] <= g->mark[c->mark].at) {
                    reached[g->mark[c->mark].lane] = g->mark[c->mark].at + 1;
                    more = true;
                }
                c = c->next;
            }
        }
    }
    for (int i = 0; i < g->n_lanes; i++)
        if (reached[i] < g->lane[i].n)
            return false;
    return true;
}

static void leave_graph(CUgraph g) /* the lock is held */
{
    if (--g->users > 0)
        return;
    for (int i = 0; i < g->n_lanes; i++)
        while (g->lane[i].head) {
            struct fake_command *c = g->lane[i].head;
            g->lane[i].head = c->next;
            free(c);
        }
    while (g->kept) {
        struct kept *k = g->kept;
        g->kept = k->next;
        k->drop(k->p);
        free(k);
    }
    free(g);
    fake_n_graphs--;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *graph)
{
    struct fake_capture *k = s->capture;
    CUresult r = fake_enter("cuStreamEndCapture");

    if (!k || k != mine || k->origin != s)
        return k ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_ILLEGAL_STATE;
    pthread_mutex_lock(&fake_lock);
    for (struct fake_capture **at = &captures; *at; at = &(*at)->next)
        if (*at == k) {
            *at = k->next;
            break;
        }
    for (int i = 0; i < k->graph->n_lanes; i++)
        k->streams[i]->capture = NULL;
    if (k->spoilt)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (r == CUDA_SUCCESS && !joined(k->graph))
        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = r == CUDA_SUCCESS ? k->graph : NULL;
    if (r != CUDA_SUCCESS)
        leave_graph(k->graph);
    pthread_mutex_unlock(&fake_lock);
    free(k);
    mine = NULL;
    return r;
}

CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
    pthread_mutex_lock(&fake_lock);
    *status = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

bool fake_cuda_keep(CUstream s, void (*drop)(void *), void *p)
{
    bool captured;

    pthread_mutex_lock(&fake_lock);
    captured = s->capture != NULL;
    if (captured) {
        struct kept *k = malloc(sizeof *k);
        *k = (struct kept){s->capture->graph->kept, drop, p};
        s->capture->graph->kept = k;
    }
    pthread_mutex_unlock(&fake_lock);
    return captured;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long flags)
{
    CUresult r = fake_enter_unsafe("cuGraphInstantiate");

    if (r != CUDA_SUCCESS || flags != 0)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    *e = calloc(1, sizeof **e);
    (*e)->graph = g;
    pthread_mutex_lock(&fake_lock);
    g->users++;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph g)
{
    pthread_mutex_lock(&fake_lock);
    leave_graph(g);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec e)
{
    CUresult r = cuGraphDestroy(e->graph);

    free(e);
    return r;
}

CUresult cuGraphUpload(CUgraphExec e, CUstream s)
{
    (void)e;
    return s->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : fake_enter("cuGraphUpload");
}

static void begin_records(CUgraph g) /* the lock is held */
{
    for (int i = 0; i < g->n_lanes; i++)
        for (struct fake_command *c = g->lane[i].head; c; c = c->next)
            if (c->kind == RECORD) {
                c->target = ++c->event->given;
                c->event->users++;
            }
}

CUresult cuGraphLaunch(CUgraphExec e, CUstream s)
{
    CUresult r = fake_enter("cuGraphLaunch");

    if (r != CUDA_SUCCESS || s->capture)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct fake_command *c = fake_command_new(LAUNCH, 0);
    c->graph = e->graph;
    pthread_mutex_lock(&fake_lock);
    e->graph->users++;
    begin_records(e->graph);
    pthread_mutex_unlock(&fake_lock);
    fake_give(s, c);
    return CUDA_SUCCESS;
}

static void *run_lane(void *arg)
{
    struct lane *l = arg;

    for (struct fake_command *c = l->head; c; c = c->next) {
        if (c->kind == RECORD) {
            fake_record(c->event, c->target);
        } else if (c->kind == MARK || c->kind == JOIN) {
            struct mark *m = &l->graph->mark[c->mark];
            pthread_mutex_lock(&fake_lock);
            while (c->kind == JOIN && !m->done)
                fake_bell_wait(&m->is_done);
            m->done = true;
            fake_bell_ring(&m->is_done);
        } else {
            fake_run(l->stream, c);
        }
    }
    return NULL;
}

void fake_graph_run(CUgraph g)
{
    pthread_t thread[MAX_LANES];

    for (int i = 0; i < g->n_marks; i++)
        g->mark[i].done = false;
    for (int i = 0; i < g->n_lanes; i++)
        pthread_create(&thread[i], NULL, run_lane, &g->lane[i]);
    for (int i = 0; i < g->n_lanes; i++)
        pthread_join(thread[i], NULL);
    cuGraphDestroy(g);
}
