// The search runs in a worker, and browsers start no worker for a page that was opened as a file. There, a hidden frame
// takes the worker's place: it runs the same script, and messages go to it and come from it as events.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = [];

    constructor(script) {
      super();
      this.#frame.hidden = true;
      this.#frame.srcdoc = `<script src="${new URL(script, location).href}"></script>`;
      this.#frame.addEventListener("load", () => this.#start(), { once: true });
      document.body.append(this.#frame);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#send(data);
    }

    terminate() {
      this.#frame.remove();
    }

    #start() {
      this.#frame.contentWindow.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const waiting = this.#waiting;
      this.#waiting = null;
      waiting.forEach((data) => this.#send(data));
    }

    #send(data) {
      this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
