/* Parts of one kernel's work on threads that stay, since waking one of Python's takes as long as a small convolution.

   Who comes late finds nothing left to do and is not waited for: a busy machine costs a part at most. */
#include <pthread.h>
#include <sched.h>
#include "kernels.h"

#define LOOKS 2000 /* of an idle helper before it sleeps, some hundredths of a millisecond */
#define MOST 63
#define GET(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define SET(x, to) __atomic_store_n(&(x), to, __ATOMIC_SEQ_CST)
#define PLUS(x, by) __atomic_fetch_add(&(x), by, __ATOMIC_SEQ_CST)

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE __builtin_ia32_pause()
#else
#define PAUSE ((void)0)
#endif

static struct { Work work; const void *job; float *scratch; long size; int parts, wanted; } task;
static int call, open_now, inside, asleep, next_part, helpers;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;

static void take_parts(int worker) {
  for (int part; (part = PLUS(next_part, 1)) < task.parts;) task.work(task.job, part, task.scratch + worker * task.size);
}

static void *help(void *me) {
  int worker = (int)(long)me, seen = 0;
  for (;;) {
    for (int i = 0; i < LOOKS && GET(call) == seen; i++) PAUSE;
    if (GET(call) == seen) {
      pthread_mutex_lock(&door);
      PLUS(asleep, 1);
      while (GET(call) == seen) pthread_cond_wait(&bell, &door);
      PLUS(asleep, -1);
      pthread_mutex_unlock(&door);
    }
    seen = GET(call);
    PLUS(inside, 1); /* before looking whether there is something: from here on the caller waits */
    if (GET(open_now) && worker <= task.wanted) take_parts(worker);
    PLUS(inside, -1);
  }
  return NULL;
}

/* A process that was forked off has no helpers, whatever they were doing. */
static void forked(void) {
  call = open_now = inside = asleep = helpers = 0;
  pthread_mutex_init(&one, NULL);
  pthread_mutex_init(&door, NULL);
  pthread_cond_init(&bell, NULL);
}

static void hire(int wanted) {
  static int told = 0;
  if (!told) told = !pthread_atfork(NULL, NULL, forked);
  for (; helpers < wanted && helpers < MOST; helpers++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, help, (void *)(helpers + 1L))) return;
    pthread_detach(thread);
  }
}

void share(Work work, const void *job, int parts, int threads, float *scratch, long size) {
  if (threads < 2 || parts < 2 || pthread_mutex_trylock(&one)) {
    for (int part = 0; part < parts; part++) work(job, part, scratch);
    return;
  }
  hire(threads - 1);
  task.work = work, task.job = job, task.parts = parts, task.wanted = threads - 1, task.scratch = scratch, task.size = size;
  SET(next_part, 0);
  SET(open_now, 1);
  PLUS(call, 1);
  if (GET(asleep)) {
    pthread_mutex_lock(&door);
    pthread_cond_broadcast(&bell);
    pthread_mutex_unlock(&door);
  }
  take_parts(0);
  SET(open_now, 0);
  for (int i = 0; GET(inside); i++)
    if (i < LOOKS) PAUSE;
    else sched_yield();
  pthread_mutex_unlock(&one);
}
