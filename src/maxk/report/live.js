// Served by `maxk report --watch`: ask now and then whether there is a newer page.

async function lookForNews(first) {
  const badge = byId("live");
  try {
    const { version, trouble } = await (await fetch("/version", { cache: "no-store" })).json();
    badge.classList.toggle("stale", Boolean(trouble));
    badge.textContent = trouble ? `live, waiting: ${trouble}` : "live";
    if (version !== first && !dialog.open) location.reload();
    else if (version !== first) badge.textContent = "live, newer data when the viewer is closed";
  } catch {
    badge.classList.add("stale");
    badge.textContent = "no longer served";
  }
}

setInterval(() => lookForNews(DATA.version), 2000);
