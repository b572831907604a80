// One session of a Node client: `node session.mjs CLIENT BASE_URL STREAM` reads {system, tool, asks, results} from
// stdin and prints what the application saw as one JSON line. Errors are printed, not thrown.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [client, baseURL, streamed] = process.argv.slice(2);
const stream = streamed === "stream";
const talk = JSON.parse(readFileSync(0, "utf8"));
const seen = { answers: [], calls: [], shapes: [] };
const parameters = {
  type: "object",
  properties: { place: { type: "string" }, row: { type: "integer" } },
  required: ["place", "row"],
  additionalProperties: false,
};

function runTool({ place, row }) {
  seen.calls.push([place, row]);
  return talk.results[row];
}

async function openaiChat() {
  const api = new OpenAI({ baseURL, apiKey: "sk-scripted", maxRetries: 0 });
  const tools = [{ type: "function", function: { name: talk.tool, description: "Surveys a place.", parameters } }];
  const messages = [{ role: "system", content: talk.system }];
  for (const ask of talk.asks) {
    messages.push({ role: "user", content: ask });
    for (let isOver = false; !isOver; ) {
      const body = { model: "scripted-1", messages, tools };
      let message;
      if (stream) {
        const running = api.chat.completions.stream(body);
        const shapes = [];
        running.on("chunk", (chunk) => shapes.push(`${chunk.choices.length} usage=${chunk.usage !== undefined}`));
        message = await running.finalMessage();
        seen.shapes.push(shapes);
      } else {
        const reply = await api.chat.completions.create(body);
        seen.shapes.push([`usage=${reply.usage !== undefined}`]);
        message = reply.choices[0].message;
      }
      messages.push(message);
      for (const call of message.tool_calls ?? []) {
        messages.push({ role: "tool", tool_call_id: call.id, content: runTool(JSON.parse(call.function.arguments)) });
      }
      isOver = !message.tool_calls?.length;
      if (isOver) seen.answers.push(message.content);
    }
  }
}

async function openaiResponses() {
  const api = new OpenAI({ baseURL, apiKey: "sk-scripted", maxRetries: 0 });
  const tools = [{ type: "function", name: talk.tool, description: "Surveys a place.", parameters, strict: true }];
  const input = [];
  for (const ask of talk.asks) {
    input.push({ role: "user", content: ask });
    for (let isOver = false; !isOver; ) {
      const body = { model: "scripted-1", instructions: talk.system, input, tools };
      let reply;
      if (stream) {
        const shapes = [];
        for await (const event of await api.responses.create({ ...body, stream: true })) {
          shapes.push(`${event.sequence_number} ${event.type}`);
          if (event.type === "response.completed") reply = event.response;
        }
        seen.shapes.push(shapes);
      } else {
        reply = await api.responses.create(body);
      }
      input.push(...reply.output);
      const calls = reply.output.filter((item) => item.type === "function_call");
      for (const call of calls) {
        input.push({ type: "function_call_output", call_id: call.call_id, output: runTool(JSON.parse(call.arguments)) });
      }
      isOver = !calls.length;
      if (isOver) seen.answers.push(reply.output.at(-1).content[0].text);
    }
  }
}

async function aiSdk(pick, providerOptions) {
  const provider = createOpenAI({ baseURL, apiKey: "sk-scripted" });
  const model = pick(provider);
  const tools = {
    [talk.tool]: tool({ description: "Surveys a place.", inputSchema: jsonSchema(parameters), execute: runTool }),
  };
  const messages = [];
  for (const ask of talk.asks) {
    messages.push({ role: "user", content: ask });
    const options = { model, system: talk.system, messages, tools, stopWhen: stepCountIs(20), maxRetries: 0, providerOptions };
    if (stream) {
      const running = streamText({ ...options, onError: ({ error }) => { throw error; } });
      const shapes = [];
      for await (const part of running.fullStream) {
        if (part.type === "error") throw part.error;
        shapes.push(part.type);
      }
      seen.shapes.push(shapes);
      messages.push(...(await running.response).messages);
      seen.answers.push(await running.text);
    } else {
      const reply = await generateText(options);
      messages.push(...reply.response.messages);
      seen.answers.push(reply.text);
    }
  }
}

const drives = {
  openai: openaiChat,
  "openai-responses": openaiResponses,
  "ai-sdk": () => aiSdk((provider) => provider.chat("scripted-1")),
  "ai-sdk-responses": () => aiSdk((provider) => provider("scripted-1"), { openai: { store: false } }),
  "ai-sdk-stored": () => aiSdk((provider) => provider("scripted-1")),
};
let error = null;
try {
  await drives[client]();
} catch (caught) {
  error = { name: caught.name, status: caught.status ?? caught.statusCode ?? null, text: caught.message };
}
console.log(JSON.stringify({ ...seen, error }));
