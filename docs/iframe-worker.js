// Browsers start no worker from a folder: there a hidden frame does the work of the search.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const room = frame.contentDocument;
      room.open();
      room.write("<body></body>");
      room.close();
      this.inside = frame.contentWindow;
      this.inside.postMessage = data => send(this, data);
      const script = room.createElement("script");
      this.ready = new Promise(done => (script.onload = done));
      script.src = url;
      room.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => send(this.inside, data));
    }
  };

function send(target, data) {
  target.dispatchEvent(new MessageEvent("message", {data}));
}
