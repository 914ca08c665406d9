import {Client, StreamableHTTPClientTransport} from '@modelcontextprotocol/client';
import {define} from './cases.js';

for (const [mode, url] of [['legacy', process.env.MCP_LEGACY_URL], ['auto', process.env.MCP_URL], [{pin: '2026-07-28'}, process.env.MCP_URL]]) {
  define(`2.x ${mode.pin ?? mode}`, {
    async connect(elicit, onChange) {
      const client = new Client({name: 'interop', version: '1.0.0'}, {
        capabilities: elicit ? {elicitation: {form: {}}} : {},
        versionNegotiation: {mode},
        ...(onChange && {listChanged: {tools: {onChanged: onChange}}}),
      });
      if (elicit) client.setRequestHandler('elicitation/create', (r) => elicit(r.params));
      await client.connect(new StreamableHTTPClientTransport(new URL(url)));
      return client;
    },
    call: (client, params, options) => client.callTool(params, options),
  });
}
