/* http.c -- HTTP/1.1 with keep-alive: files, and a guestbook kept in Redis.
 *
 *     head -> a small file         one answer, copied from memory
 *             a large file         the head, then chunk by chunk: WANT_WRITE
 *             /guestbook           ask Redis: WANT_ASK, then the page
 *             anything else        an error, as text
 *
 * Requests may be pipelined: those that are there are answered in one go, as
 * long as there is room. GET and HEAD for everything, POST for /guestbook. A
 * body is at most 16 KiB and comes with its length; where nobody wants it, it
 * is read away. What cannot be understood is answered and the connection
 * closed, because nobody knows where the next request would begin; a line that
 * ends in a bare LF belongs to that (http_parse.h). A request that takes longer
 * than --timeout-header or --timeout-body allow gets 408 (RFC 9110, 15.5.9),
 * unless it was answered before its body had come.
 *
 * Look: a file costs a disk's time here, which no readiness model can wait
 *       for (poll says that a file is always ready). Small ones are remembered;
 *       a large one that is not in the page cache holds up a whole loop.
 */
#include <stdlib.h>
#include <unistd.h>

#include "http/files.h"
#include "http/guestbook.h"
#include "http/http_parse.h"
#include "http/http_reply.h"
#include "redis/redis_conn.h"
#include "workload.h"

/* Room for any answer that is built in one piece. */
enum { ANSWER_MAX_BYTES = FILES_SMALL + 2 * HTTP_REPLY_MAX };

enum state { READING, STREAMING, ASKING_PAGE, ASKING_WRITE };

/* Where a connection is, between two calls. */
struct session {
    uint8_t state;
    bool continued;         /* "100 Continue" was sent for this request */
    bool head, old, keep_alive;         /* of the request being answered */
    int fd;                 /* STREAMING: the file … */
    uint64_t left;          /* … and what of it is still to be sent */
    uint32_t discard;       /* of a body that nobody wants */
    char *command;          /* ASKING_WRITE: ours to free */
};

/* What a part of a step says to the loop over requests. */
enum { NEXT_REQUEST = -1 };

static const char *http_setup(const struct workload_options *options)
{
    const char *wrong = files_setup(options->root);
    guestbook_setup(options->root);
    return wrong ? wrong : redis_setup(options->redis);
}

static struct span unread(const struct step *step)
{
    return (struct span){step->in + step->used, step->in_bytes - step->used};
}

static int after_answer(const struct session *s, struct step *step)
{
    step->requests++;
    return s->keep_alive ? NEXT_REQUEST : WANT_CLOSE;
}

static int refuse(const struct session *s, struct step *step,
                  struct buffer *out, int status, const char *extra)
{
    struct http_request request = {
        .method = s->head ? HTTP_HEAD : HTTP_GET,
        .keep_alive = s->keep_alive, .old = s->old};
    http_error(out, status, &request, extra);
    return after_answer(s, step);
}

/* --- files ------------------------------------------------------------ */

/* The next chunk. A file that became shorter ends the connection: its length
 * was promised. */
static int stream(struct session *s, struct step *step, struct buffer *out)
{
    size_t room = out->capacity - out->length;
    size_t most = s->left < room ? (size_t)s->left : room;
    ssize_t n = read(s->fd, out->bytes + out->length, most);
    s->left -= n > 0 ? (uint64_t)n : 0;
    out->length += n > 0 ? (size_t)n : 0;
    if (n > 0 && s->left > 0)
        return WANT_WRITE;
    close(s->fd);
    s->state = READING;
    return n > 0 ? after_answer(s, step) : WANT_CLOSE;
}

/* The head goes first, so that a small body is copied once, to its place. */
static int answer_file(struct session *s, struct step *step,
                       struct buffer *out, const char *path)
{
    struct file file = files_get(path);
    if (file.status != 200) {
        files_release(&file);
        return refuse(s, step, out, file.status, NULL);
    }
    http_reply(out, &(struct http_reply){
        .status = 200, .type = file.type, .body_bytes = file.bytes,
        .keep_alive = s->keep_alive, .old = s->old});
    if (file.fd >= 0 && !s->head) {
        s->state = STREAMING;
        s->fd = file.fd;
        s->left = file.bytes;
        return stream(s, step, out);
    }
    if (!s->head)
        buffer_add(out, file.body, file.bytes);
    files_release(&file);
    return after_answer(s, step);
}

/* --- the guestbook ---------------------------------------------------- */

static int answer_unavailable(struct session *s, struct step *step,
                              struct buffer *out)
{
    return refuse(s, step, out, 503, "Retry-After: 1\r\n");
}

/* The body is built behind room for the head, which needs its length. */
static int answer_page(struct session *s, struct step *step,
                       struct buffer *out)
{
    struct span reply = {step->reply, step->reply_bytes};
    char head[HTTP_REPLY_MAX];
    struct buffer top = {.bytes = head, .capacity = sizeof head};
    struct buffer page = {.bytes = out->bytes + HTTP_REPLY_MAX,
                          .capacity = out->capacity - HTTP_REPLY_MAX};
    enum guestbook_news news = guestbook_page(reply, &page);
    if (news == GUESTBOOK_MORE)
        return WANT_ASK;
    s->state = READING;
    step->hang_up = news == GUESTBOOK_NONSENSE;
    if (news != GUESTBOOK_DONE)
        return answer_unavailable(s, step, out);
    http_reply(&top, &(struct http_reply){
        .status = 200, .type = http_type(".html"), .body_bytes = page.length,
        .extra = "Cache-Control: no-store\r\n",
        .keep_alive = s->keep_alive, .old = s->old});
    out->bytes = page.bytes - top.length;
    memcpy(out->bytes, head, top.length);
    out->length = top.length + (s->head ? 0 : page.length);
    return after_answer(s, step);
}

static int answer_written(struct session *s, struct step *step,
                          struct buffer *out)
{
    struct span reply = {step->reply, step->reply_bytes};
    enum guestbook_news news = guestbook_written(reply);
    if (news == GUESTBOOK_MORE)
        return WANT_ASK;
    s->state = READING;
    step->hang_up = news == GUESTBOOK_NONSENSE;
    free(s->command);
    s->command = NULL;
    if (news != GUESTBOOK_DONE)
        return answer_unavailable(s, step, out);
    http_reply(out, &(struct http_reply){
        .status = 303, .extra = "Location: /guestbook\r\n",
        .keep_alive = s->keep_alive, .old = s->old});
    return after_answer(s, step);
}

static int on_reply(struct session *s, struct step *step, struct buffer *out)
{
    if (step->reply_failed) {
        free(s->command);
        s->command = NULL;
        s->state = READING;
        return answer_unavailable(s, step, out);
    }
    return s->state == ASKING_PAGE ? answer_page(s, step, out)
                                   : answer_written(s, step, out);
}

static int ask(struct session *s, struct step *step, enum state state,
               struct span command)
{
    s->state = (uint8_t)state;
    step->ask = command.bytes;
    step->ask_bytes = command.length;
    return WANT_ASK;
}

/* The whole body is there, at `body`. */
static int answer_post(struct session *s, struct step *step,
                       struct buffer *out, const struct http_request *request,
                       const char *body)
{
    struct span type = request->content_type;
    if (type.length > 0 &&
        !http_is_media_type(type, "application/x-www-form-urlencoded"))
        return refuse(s, step, out, 415, NULL);
    int status;
    struct span command = guestbook_write(
        (struct span){body, (size_t)request->body_bytes}, &status);
    if (!command.bytes)
        return refuse(s, step, out, status, NULL);
    s->command = (char *)command.bytes;
    return ask(s, step, ASKING_WRITE, command);
}

/* What has begun took too long. Of a body that is only read away, the request
 * was answered before. */
static int answer_late(struct session *s, struct step *step,
                       struct buffer *out)
{
    step->used = step->in_bytes;
    s->head = s->keep_alive = false;
    return s->discard > 0 ? (int)WANT_CLOSE : refuse(s, step, out, 408, NULL);
}

static int await_body(struct session *s, struct step *step,
                      struct buffer *out)
{
    if (step->timed_out)
        return answer_late(s, step, out);
    step->in_body = true;
    return step->in_end ? WANT_CLOSE : WANT_READ;
}

/* The body of a POST is used, so all of it must be there first. */
static int receive_post(struct session *s, struct step *step,
                        struct buffer *out, const struct http_request *request)
{
    struct span rest = unread(step);
    size_t whole = request->head_bytes + (size_t)request->body_bytes;
    if (!request->has_length) {
        step->used += request->head_bytes;
        return refuse(s, step, out, 411, NULL);
    }
    if (rest.length >= whole) {
        step->used += whole;
        s->continued = false;
        return answer_post(s, step, out, request,
                           rest.bytes + request->head_bytes);
    }
    if (step->in_end)
        return WANT_CLOSE;
    if (request->expects_continue && !s->continued)
        buffer_text(out, "HTTP/1.1 100 Continue\r\n\r\n");
    s->continued = true;
    return await_body(s, step, out);
}

/* --- requests --------------------------------------------------------- */

/* Head and body are done with; the body may still be on its way. */
static void leave_body(struct session *s, struct step *step,
                       const struct http_request *request)
{
    step->used += request->head_bytes;
    s->discard = (uint32_t)request->body_bytes;
    if (request->expects_continue && s->discard > 0)
        s->keep_alive = false; /* it may come or not: no telling */
}

static int answer(struct session *s, struct step *step, struct buffer *out,
                  const struct http_request *request)
{
    char path[FILES_PATH_MAX];
    s->head = request->method == HTTP_HEAD;
    s->old = request->old;
    s->keep_alive = request->keep_alive;
    long n = http_decode(request->path, false, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    bool guestbook = strcmp(path, "/guestbook") == 0;
    if (guestbook && request->method == HTTP_POST)
        return receive_post(s, step, out, request);
    leave_body(s, step, request);
    if (request->method == HTTP_UNKNOWN)
        return refuse(s, step, out, 501, NULL);
    if (request->method != HTTP_GET && request->method != HTTP_HEAD)
        return refuse(s, step, out, 405,
                      guestbook ? "Allow: GET, HEAD, POST\r\n"
                                : "Allow: GET, HEAD\r\n");
    if (n <= 0)
        return refuse(s, step, out, n == -2 ? 404 : 400, NULL);
    if (guestbook)
        return ask(s, step, ASKING_PAGE,
                   s->head ? guestbook_look : guestbook_read);
    return answer_file(s, step, out, path);
}

/* Reads away what is left of a body; false: there is more to come. */
static bool discard(struct session *s, struct step *step)
{
    size_t n = unread(step).length;
    n = n < s->discard ? n : s->discard;
    step->used += n;
    s->discard -= (uint32_t)n;
    return s->discard == 0;
}

static int next_request(struct session *s, struct step *step,
                        struct buffer *out)
{
    struct http_request request;
    if (!discard(s, step))
        return await_body(s, step, out);
    switch (http_parse(unread(step), &request)) {
    case HTTP_INCOMPLETE:
        if (step->timed_out)
            return answer_late(s, step, out);
        return step->in_end ? WANT_CLOSE : WANT_READ;
    case HTTP_BAD:
        step->used = step->in_bytes;
        step->requests++;
        http_error(out, request.error, &request, NULL);
        return WANT_CLOSE;
    case HTTP_COMPLETE:
        break;
    }
    return answer(s, step, out, &request);
}

static enum want http_step(void *session, struct step *step)
{
    struct session *s = session;
    struct buffer out = {.bytes = step->room, .capacity = step->room_bytes};
    int want = NEXT_REQUEST;
    if (s->state == STREAMING)
        want = stream(s, step, &out);
    else if (s->state != READING)
        want = on_reply(s, step, &out);
    if (want == NEXT_REQUEST && out.length > 0)
        want = WANT_WRITE; /* what was long in coming is not kept back */
    while (want == NEXT_REQUEST) {
        want = next_request(s, step, &out);
        bool room = out.capacity - out.length >= ANSWER_MAX_BYTES;
        if (want == NEXT_REQUEST && !room)
            want = WANT_WRITE;
    }
    step->out = out.bytes;
    step->out_bytes = out.length;
    return (enum want)want;
}

static void http_close(void *session)
{
    struct session *s = session;
    if (s->state == STREAMING)
        close(s->fd);
    free(s->command);
}

const struct workload workload_http = {
    .name = "http",
    .label = "HTTP: files and a guestbook",
    .takes = "redis,root",
    .session_bytes = sizeof(struct session),
    .setup = http_setup,
    .teardown = files_teardown,
    .step = http_step,
    .close = http_close,
};
