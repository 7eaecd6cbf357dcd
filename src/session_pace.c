/* session_pace.c: how much a submission may hold, so that it keeps the GPU no longer than a frame budget. The time of a submission is that
 * of the way to the GPU and back, which is always there, and that of its dispatches, which the budget is for. */
#include "session.h"

enum { FIRST_PIECE = 8 /* dispatches */ };
static const double most_allowed = 1e6;
static const double aim = 0.7;     /* of the budget */
static const double fastest = 2; /* by which a submission grows, and one dispatch: from one step to two, too */

uint32_t fr_pace_allowed(fr_engine *e, uint32_t kind)
{
    double *allowed = &e->pace.allowed[kind];
    if (*allowed < 1)
        *allowed = FIRST_PIECE;
    return (uint32_t)*allowed;
}

void fr_pace_read(fr_engine *e, uint32_t kind, uint32_t dispatches, double ms)
{
    fr_pace *p = &e->pace;
    if (!(ms > 0) || !dispatches)
        return;
    if (p->trip_ms == 0 || ms < p->trip_ms)
        p->trip_ms = ms;
    p->trip_ms += 0.01 * (ms < 2 * p->trip_ms ? ms - p->trip_ms : p->trip_ms); /* it may have become longer */
    const double worked = ms - p->trip_ms, room = aim * e->run.budget_ms, more = dispatches * fastest + 1;
    double *allowed = &p->allowed[kind];
    if (worked * fastest > room)
        *allowed = dispatches * room / worked;
    else if (more > *allowed) /* a small piece, such as the last one of a step, says nothing against larger ones */
        *allowed = more;
    *allowed = *allowed < 1 ? 1 : *allowed > most_allowed ? most_allowed : *allowed;
}
