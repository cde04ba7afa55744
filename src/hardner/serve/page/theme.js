// Sets the theme before the first paint; a classic script, so that nothing flashes.
"use strict";
{
  const root = document.documentElement;
  let chosen = null;
  try {
    chosen = localStorage.getItem("hardner.theme");
  } catch {
    // A browser without storage follows the system.
  }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
}
