/** The name under which this browser labels; without one, the server has its own for it. */
import { recall, remember } from "./settings.js";

let name = recall("annotator", "");

export const who = () => name;

export function callMe(given) {
  name = given;
  remember("annotator", given);
}
