/** Requests that no route takes, answered in the shape of all other errors. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";
import { RerollError } from "../../errors/reroll-error.ts";
import { errorReplyOf } from "./openai-errors.ts";

/** Notes the routes that are added from here on. Returns which methods a URL has. */
export function collectMethods(app: FastifyInstance): (url: string) => readonly string[] {
  const routes: { readonly methods: readonly string[]; readonly steps: readonly string[] }[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    routes.push({ methods: [method].flat(), steps: url.split("/") });
  });
  return (url) => {
    const [path = ""] = url.split("?");
    const steps = path.split("/");
    const found = routes.filter(
      (route) =>
        route.steps.length === steps.length &&
        route.steps.every((step, i) => step.startsWith(":") || step === steps[i]),
    );
    return [...new Set(found.flatMap(({ methods }) => methods))];
  };
}

/** @param methods those that the URL has */
export function unknownRoute(method: string, url: string, methods: readonly string[]): RerollError {
  const shown = `${method} ${url.slice(0, 200)}`;
  if (methods.length === 0) return new RerollError("ROUTE_UNKNOWN", `${shown} does not exist on this server.`);
  const allow = methods.join(", ");
  return new RerollError("METHOD_REFUSED", `${shown} is not allowed. Use ${allow}.`, { allow });
}

/** Node would answer with a status and nothing else. */
export function refuseExpectation({ headers }: IncomingMessage, response: ServerResponse): void {
  const message = `The header expect must be 100-continue: got ${JSON.stringify(headers.expect)}. Leave it out.`;
  const { status, body } = errorReplyOf(new RerollError("EXPECTATION_REFUSED", message, { param: "expect" }), 1);
  response.writeHead(status, { "content-type": "application/json", connection: "close" }).end(JSON.stringify(body));
}
