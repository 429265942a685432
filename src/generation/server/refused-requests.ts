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

/** Routes of the APIs that this server has on purpose not, each with the reason. */
const REFUSED_ROUTES: Readonly<Record<string, string>> = {
  "/v1/embeddings":
    "This server makes no embeddings: it samples from a language model, which training changes at every step. Ask a server that is made for it.",
};

export function addRefusedRoutes(app: FastifyInstance): void {
  for (const [path, reason] of Object.entries(REFUSED_ROUTES)) {
    app.post(path, async () => {
      throw new RerollError("ROUTE_UNKNOWN", reason);
    });
  }
}

/** Node would answer with a status and nothing else. */
export function refuseExpectation({ headers }: IncomingMessage, response: ServerResponse): void {
  const message = `The header expect must be 100-continue: got ${JSON.stringify(headers.expect)}. Leave it out.`;
  const { status, body } = errorReplyOf(new RerollError("EXPECTATION_REFUSED", message, { param: "expect" }), 1);
  response.writeHead(status, { "content-type": "application/json", connection: "close" }).end(JSON.stringify(body));
}
