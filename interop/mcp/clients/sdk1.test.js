import {Client} from 'sdk1/client/index.js';
import {StreamableHTTPClientTransport} from 'sdk1/client/streamableHttp.js';
import {ElicitRequestSchema, ToolListChangedNotificationSchema} from 'sdk1/types.js';
import {define} from './cases.js';

define('1.x', {
  async connect(elicit, onChange) {
    const client = new Client({name: 'interop', version: '1.0.0'}, {capabilities: elicit ? {elicitation: {form: {}}} : {}});
    if (elicit) client.setRequestHandler(ElicitRequestSchema, (r) => elicit(r.params));
    if (onChange) client.setNotificationHandler(ToolListChangedNotificationSchema, onChange);
    await client.connect(new StreamableHTTPClientTransport(new URL(process.env.MCP_LEGACY_URL)));
    return client;
  },
  call: (client, params, options) => client.callTool(params, undefined, options),
});
