// How the front end of a panel talks with the kernel, which holds the truth, and draws what it was told.

/** What is known of one model, shared by all its views; `absorb` takes in what it is told. */
export class Kernel {
  constructor(model) {
    Object.assign(this, { model, views: new Set(), waiting: new Map(), asked: 0, hint: "", users: 0, slow: false, quiet: null, heard: 0, running: 0 });
    this.me = Math.random().toString(36).slice(2);
    this.listen = (content, buffers) => content?.type === "told" && this.absorb(content, buffers);
    model?.on("msg:custom", this.listen);
  }

  settle(answer, buffers) {
    const done = answer && this.waiting.get(answer.id);
    if (!done) return;
    this.waiting.delete(answer.id);
    if (!this.waiting.size) this.awaited(false);
    done({ ...answer, buffers });
  }

  /** Ask the kernel to do something; the answer says how it went. Errors are in `head.problem`. */
  ask(cmd, args = {}) {
    const id = `${this.me}-${++this.asked}`;
    this.hint = "";
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.awaited(true);
      try {
        this.model.send({ cmd, args, id });
      } catch (error) {
        this.lost(`The kernel cannot be reached (${error.message}): run the cell again.`);
      }
    });
  }

  /** While an answer is awaited, say so after a moment, and once more when it does not come at all. */
  awaited(on) {
    clearTimeout(this.timer);
    if (!on) { this.slow = false; this.quiet = null; return; }
    this.timer = setTimeout(() => {
      this.slow = true;
      this.changed();
      this.timer = setTimeout(() => {
        this.quiet = "The kernel has not answered for 10 s: a cell or a handler may be busy, or the kernel is gone. If it was restarted, run the cell again.";
        this.changed();
      }, 9500);
    }, 500);
  }

  lost(text) {
    this.waiting.clear();
    this.awaited(false);
    this.running = 0;
    this.quiet = text;
    this.changed();
  }

  say(text) {
    this.hint = text;
    this.heard += 1;
    this.changed();
  }

  /** Draw all views, once a frame. */
  changed() {
    if (this.frame || typeof requestAnimationFrame === "undefined") return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const draw of this.views) draw();
    });
  }

  close() {
    this.model?.off("msg:custom", this.listen);
    clearTimeout(this.timer);
    this.running = 0;
  }
}

const shown = new Map();

/** Find what is shared under a key, or make it; `release` it when it is not needed any more. */
export function shared(key, make) {
  if (!shown.has(key)) shown.set(key, make());
  const one = shown.get(key);
  one.users += 1;
  return one;
}

export function release(one) {
  one.users -= 1;
  if (one.users > 0) return;
  one.close();
  for (const [key, value] of shown) if (value === one) shown.delete(key);
}
