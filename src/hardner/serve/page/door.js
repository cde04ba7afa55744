/** The server asks for a token that this browser has not, or no longer: the reader is asked for it. */
import { get } from "./core/api.js";
import { emit, on } from "./core/bus.js";
import { dialog, h } from "./core/dom.js";

let shown = null;

function ask() {
  if (shown) return;
  const given = h("input", { id: "token", required: true, autocomplete: "off" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const form = h(
    "form",
    {},
    h("p", {}, "Nothing is lost: what is not saved yet is kept here and sent once you are in."),
    h("label", { for: "token" }, "The address that the terminal shows, or the token in it"),
    given,
    wrong,
    h("button", { class: "main" }, "Open"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = given.value.trim().split("token=").at(-1);
    try {
      await get(`/?token=${encodeURIComponent(token)}`); // the answer sets the cookie
    } catch (error) {
      wrong.textContent = error.status === 401 ? "That is not the token." : error.message;
      return;
    }
    shown.close();
    emit("connection", true);
  });
  shown = dialog("This workbench asks for its token", form);
  shown.addEventListener("close", () => (shown = null));
}

on("locked", ask);
