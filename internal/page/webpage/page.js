"use strict";
// Events tell that there is something new; the page is then loaded, and its parts that differ are
// put in place. Nobody is asked while the page is hidden.
(() => {
  const live = document.getElementById("live");
  let events = null, loading = false, again = false;

  const place = (part, fresh) => {
    const focus = part.contains(document.activeElement) ? document.activeElement : null;
    if (focus && (focus.tagName === "INPUT" || focus.tagName === "SELECT")) return; // somebody types
    const scrolled = [...part.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
    const key = focus && focus.getAttribute("href");
    const index = focus ? [...part.querySelectorAll("[tabindex]")].indexOf(focus) : -1;
    part.replaceWith(fresh);
    [...fresh.querySelectorAll(".scroll")].forEach((one, i) => { if (scrolled[i]) one.scrollTo(...scrolled[i]); });
    const back = key ? [...fresh.querySelectorAll("a")].find((a) => a.getAttribute("href") === key) : fresh.querySelectorAll("[tabindex]")[index];
    if (focus && back) back.focus({ preventScroll: true });
  };

  const load = async () => {
    if (loading) { again = true; return; }
    loading = true;
    try {
      const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.documentElement.dataset.version = next.documentElement.dataset.version;
      document.getElementById("head").replaceWith(next.getElementById("head"));
      for (const part of document.querySelectorAll("[data-part]")) {
        const fresh = next.getElementById(part.id);
        if (fresh && fresh.innerHTML !== part.innerHTML) place(part, fresh);
      }
      say("live");
    } catch { say("away"); }
    loading = false;
    if (again) { again = false; load(); }
  };

  const say = (state) => {
    const text = { live: "live", away: "not connected", paused: "paused" }[state];
    if (live.textContent !== text) live.textContent = text;
    live.className = state;
  };

  const open = () => {
    if (events) return;
    events = new EventSource("events?seen=" + document.documentElement.dataset.version);
    events.addEventListener("open", () => say("live"));
    events.addEventListener("view", load);
    events.addEventListener("error", () => {
      say("away");
      if (events.readyState === EventSource.CLOSED) { events = null; setTimeout(visible, 15000); }
    });
  };
  const close = () => { if (events) events.close(); events = null; say("paused"); };
  const visible = () => (document.hidden ? close() : open());

  document.addEventListener("visibilitychange", () => { visible(); if (!document.hidden) load(); });
  addEventListener("pagehide", close);
  addEventListener("pageshow", visible);
})();
