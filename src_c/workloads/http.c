/* http.c -- HTTP/1.1 with keep-alive: files, and a guestbook kept in Redis.
 *
 *     head -> a small file         one answer, copied from memory
 *             a large file         the head, then chunk by chunk: WANT_WRITE
 *             /guestbook           ask Redis: WANT_ASK, then the page
 *             anything else        an error, as text
 *
 * Requests may be pipelined: those that are there are answered in one go, as
 * long as there is room. GET and HEAD for everything, POST for /guestbook. A
 * body is at most 16 KiB and comes with its length; where no answer needs it,
 * it is discarded. What cannot be understood is answered and the connection
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

enum http_state {
    HTTP_READING,
    HTTP_STREAMING,
    HTTP_AWAITING_PAGE,
    HTTP_AWAITING_WRITE,
};

/* Where a connection is, between two calls. */
struct http_session {
    uint8_t state;
    bool continued; /* "100 Continue" was sent for this request */
    bool head, http10, keep_alive; /* of the request being answered */
    int fd;                        /* HTTP_STREAMING: the file … */
    uint64_t left;                 /* … and what of it is still to be sent */
    uint32_t discard; /* of a body that no answer needs, yet to come */
    char *command;    /* HTTP_AWAITING_WRITE: ours to free */
};

/* What a part of a step returns when its request is answered and the connection
 * stays: the loop in http_step() goes on. Else it returns an enum want. */
enum { NEXT_REQUEST = -1 };

static const char *http_setup(const struct workload_options *options)
{
    const char *wrong = files_setup(options->root);
    if (!wrong)
        wrong = guestbook_setup(options->root);
    return wrong ? wrong : redis_setup(options->redis);
}

static struct span unread(const struct step *step)
{
    return (struct span){step->in + step->used, step->in_bytes - step->used};
}

static int after_answer(const struct http_session *s, struct step *step)
{
    step->requests++;
    return s->keep_alive ? NEXT_REQUEST : WANT_CLOSE;
}

static int answer_error(const struct http_session *s, struct step *step,
                        struct buffer *out, int status, const char *extra)
{
    struct http_request request = {.method = s->head ? HTTP_HEAD : HTTP_GET,
                                   .keep_alive = s->keep_alive,
                                   .http10 = s->http10};
    http_error(out, status, &request, extra);
    return after_answer(s, step);
}

/* --- files ------------------------------------------------------------ */

/* The next chunk. A file that became shorter ends the connection, before the
 * length that Content-Length promised: so the client knows. */
static int stream(struct http_session *s, struct step *step, struct buffer *out)
{
    size_t room = out->capacity - out->length;
    size_t most = s->left < room ? (size_t)s->left : room;
    ssize_t n = read(s->fd, out->bytes + out->length, most);
    s->left -= n > 0 ? (uint64_t)n : 0;
    out->length += n > 0 ? (size_t)n : 0;
    if (n > 0 && s->left > 0)
        return WANT_WRITE;
    close(s->fd);
    s->state = HTTP_READING;
    return n > 0 ? after_answer(s, step) : WANT_CLOSE;
}

/* The head goes first, so that a small body is copied once, to its place. */
static int answer_file(struct http_session *s, struct step *step,
                       struct buffer *out, const char *path)
{
    struct file file = files_get(path);
    if (file.status != 200) {
        files_release(&file);
        return answer_error(s, step, out, file.status, NULL);
    }
    http_reply(out, &(struct http_reply){.status = 200,
                                         .type = file.type,
                                         .body_bytes = file.bytes,
                                         .keep_alive = s->keep_alive,
                                         .http10 = s->http10});
    if (file.fd >= 0 && !s->head) {
        s->state = HTTP_STREAMING;
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

static int answer_unavailable(struct http_session *s, struct step *step,
                              struct buffer *out)
{
    return answer_error(s, step, out, 503, "Retry-After: 1\r\n");
}

/* Content-Length is known when the page is there: so the page is built behind
 * room for a head, and the head then put right in front of it. */
static int answer_page(struct http_session *s, struct step *step,
                       struct buffer *out)
{
    struct span reply = {step->reply, step->reply_bytes};
    char head[HTTP_REPLY_MAX];
    struct buffer top = {.bytes = head, .capacity = sizeof head};
    struct buffer page = {.bytes = out->bytes + HTTP_REPLY_MAX,
                          .capacity = out->capacity - HTTP_REPLY_MAX};
    enum guestbook_result result = guestbook_page(reply, &page);
    if (result == GUESTBOOK_INCOMPLETE)
        return WANT_ASK;
    s->state = HTTP_READING;
    step->hang_up = result == GUESTBOOK_NOT_RESP;
    if (result != GUESTBOOK_DONE)
        return answer_unavailable(s, step, out);
    http_reply(&top,
               &(struct http_reply){.status = 200,
                                    .type = http_type(".html"),
                                    .body_bytes = page.length,
                                    .extra = "Cache-Control: no-store\r\n",
                                    .keep_alive = s->keep_alive,
                                    .http10 = s->http10});
    out->bytes = page.bytes - top.length;
    memcpy(out->bytes, head, top.length);
    out->length = top.length + (s->head ? 0 : page.length);
    return after_answer(s, step);
}

static int answer_written(struct http_session *s, struct step *step,
                          struct buffer *out)
{
    struct span reply = {step->reply, step->reply_bytes};
    enum guestbook_result result = guestbook_written(reply);
    if (result == GUESTBOOK_INCOMPLETE)
        return WANT_ASK;
    s->state = HTTP_READING;
    step->hang_up = result == GUESTBOOK_NOT_RESP;
    free(s->command);
    s->command = NULL;
    if (result != GUESTBOOK_DONE)
        return answer_unavailable(s, step, out);
    http_reply(out, &(struct http_reply){.status = 303,
                                         .extra = "Location: /guestbook\r\n",
                                         .keep_alive = s->keep_alive,
                                         .http10 = s->http10});
    return after_answer(s, step);
}

/* All of the reply of Redis so far came, or there will be none. */
static int on_reply(struct http_session *s, struct step *step,
                    struct buffer *out)
{
    if (step->reply_failed) {
        free(s->command);
        s->command = NULL;
        s->state = HTTP_READING;
        return answer_unavailable(s, step, out);
    }
    return s->state == HTTP_AWAITING_PAGE ? answer_page(s, step, out)
                                          : answer_written(s, step, out);
}

static int ask_redis(struct http_session *s, struct step *step,
                     enum http_state state, struct span command)
{
    s->state = (uint8_t)state;
    step->ask = command.bytes;
    step->ask_bytes = command.length;
    return WANT_ASK;
}

/* The whole body is there, at `body`. */
static int answer_post(struct http_session *s, struct step *step,
                       struct buffer *out, const struct http_request *request,
                       const char *body)
{
    struct span type = request->content_type;
    if (type.length > 0 &&
        !http_is_media_type(type, "application/x-www-form-urlencoded"))
        return answer_error(s, step, out, 415, NULL);
    int status;
    struct span command = guestbook_write(
        (struct span){body, (size_t)request->body_bytes}, &status);
    if (!command.bytes)
        return answer_error(s, step, out, status, NULL);
    s->command = (char *)command.bytes;
    return ask_redis(s, step, HTTP_AWAITING_WRITE, command);
}

/* A request took longer than --timeout-header or --timeout-body. If its body is
 * being discarded it has had its answer, and gets no second one. */
static int answer_late(struct http_session *s, struct step *step,
                       struct buffer *out)
{
    step->used = step->in_bytes;
    s->head = s->keep_alive = false;
    return s->discard > 0 ? (int)WANT_CLOSE
                          : answer_error(s, step, out, 408, NULL);
}

static int await_body(struct http_session *s, struct step *step,
                      struct buffer *out)
{
    if (step->timed_out)
        return answer_late(s, step, out);
    step->in_body = true;
    return step->in_end ? WANT_CLOSE : WANT_READ;
}

/* All of the body must be there: until then the request is parsed anew each
 * time (HTTP_BODY_MAX bounds that). A client that sent "Expect: 100-continue"
 * waits for an interim answer before it sends the body (RFC 9110, 10.1.1). */
static int receive_post(struct http_session *s, struct step *step,
                        struct buffer *out, const struct http_request *request)
{
    struct span rest = unread(step);
    size_t whole = request->head_bytes + (size_t)request->body_bytes;
    if (!request->has_length) {
        step->used += request->head_bytes;
        return answer_error(s, step, out, 411, NULL);
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

/* The answer does not depend on the body: it is discarded as it comes. */
static void skip_body(struct http_session *s, struct step *step,
                      const struct http_request *request)
{
    step->used += request->head_bytes;
    s->discard = (uint32_t)request->body_bytes;
    if (request->expects_continue && s->discard > 0)
        s->keep_alive = false; /* refused now, it may come or not */
}

static int answer(struct http_session *s, struct step *step, struct buffer *out,
                  const struct http_request *request)
{
    char path[FILES_PATH_MAX];
    s->head = request->method == HTTP_HEAD;
    s->http10 = request->http10;
    s->keep_alive = request->keep_alive;
    long n = http_decode(request->path, false, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    bool guestbook = strcmp(path, "/guestbook") == 0;
    if (guestbook && request->method == HTTP_POST)
        return receive_post(s, step, out, request);
    skip_body(s, step, request);
    if (request->method == HTTP_UNKNOWN)
        return answer_error(s, step, out, 501, NULL);
    if (request->method != HTTP_GET && request->method != HTTP_HEAD)
        return answer_error(s, step, out, 405,
                            guestbook ? "Allow: GET, HEAD, POST\r\n"
                                      : "Allow: GET, HEAD\r\n");
    if (n <= 0)
        return answer_error(s, step, out, n == -2 ? 404 : 400, NULL);
    if (guestbook)
        return ask_redis(s, step, HTTP_AWAITING_PAGE,
                         s->head ? guestbook_peek : guestbook_read);
    return answer_file(s, step, out, path);
}

/* Discards what is left of a body; false: there is more to come. */
static bool discard(struct http_session *s, struct step *step)
{
    size_t n = unread(step).length;
    n = n < s->discard ? n : s->discard;
    step->used += n;
    s->discard -= (uint32_t)n;
    return s->discard == 0;
}

static int next_request(struct http_session *s, struct step *step,
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
    case HTTP_COMPLETE: break;
    }
    return answer(s, step, out, &request);
}

static enum want http_step(void *session, struct step *step)
{
    struct http_session *s = session;
    struct buffer out = {.bytes = step->room, .capacity = step->room_bytes};
    int want = NEXT_REQUEST;
    if (s->state == HTTP_STREAMING)
        want = stream(s, step, &out);
    else if (s->state != HTTP_READING)
        want = on_reply(s, step, &out);
    if (want == NEXT_REQUEST && out.length > 0)
        want = WANT_WRITE; /* an answer that had to wait goes out first */
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
    struct http_session *s = session;
    if (s->state == HTTP_STREAMING)
        close(s->fd);
    free(s->command);
}

const struct workload workload_http = {
    .name = "http",
    .label = "HTTP: files and a guestbook",
    .takes = "redis,root",
    .session_bytes = sizeof(struct http_session),
    .setup = http_setup,
    .teardown = files_teardown,
    .step = http_step,
    .close = http_close,
};
