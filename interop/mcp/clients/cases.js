// What a client of the TypeScript SDK does, whichever version it is of.
import assert from 'node:assert/strict';
import test from 'node:test';

// define makes the tests of one kind of client. connect(elicit, onChange) returns a
// client; call(client, params, {onprogress, signal}) calls a tool.
export function define(kind, {connect, call}) {
  const using = (name, work, elicit, onChange) => test(`${kind}: ${name}`, {timeout: 30000}, async () => {
    const client = await connect(elicit, onChange);
    try {
      await work(client);
    } finally {
      await client.close();
    }
  });
  const text = (result) => result.content[0].text;

  using('list', async (client) => {
    const {tools} = await client.listTools();
    const names = tools.map((t) => t.name);
    assert.ok(names.includes('test_simple_text'), names.join());
    assert.deepEqual(names, names.toSorted());
  });

  using('structured', async (client) => {
    const result = await call(client, {name: 'structured_weather', arguments: {city: 'Medan'}});
    assert.deepEqual(result.structuredContent, {city: 'Medan', celsius: 21.5});
    assert.match(text(result), /Medan/);
  });

  using('error', async (client) => {
    const result = await call(client, {name: 'test_error_handling', arguments: {}});
    assert.equal(result.isError, true);
    assert.match(text(result), /intentionally/);
  });

  using('unknown tool', async (client) => {
    await assert.rejects(call(client, {name: 'there_is_no_such_tool', arguments: {}}), (e) => e.code === -32602);
  });

  using('content of every kind', async (client) => {
    const result = await call(client, {name: 'test_multiple_content_types', arguments: {}});
    assert.deepEqual(result.content.map((c) => c.type), ['text', 'image', 'resource']);
  });

  using('progress', async (client) => {
    const seen = [];
    await call(client, {name: 'test_tool_with_progress', arguments: {}}, {onprogress: (p) => seen.push(p.progress)});
    assert.deepEqual(seen, [0, 50, 100]);
  });

  using('elicitation', async (client) => {
    const result = await call(client, {name: 'test_input_required_result_multi_round', arguments: {}});
    assert.equal(text(result), 'Wayan likes indigo');
  }, ({message}) => ({action: 'accept', content: message.startsWith('Step 1') ? {name: 'Wayan'} : {color: 'indigo'}}));

  using('elicitation that is declined', async (client) => {
    const result = await call(client, {name: 'test_elicitation', arguments: {message: 'Who?'}});
    assert.match(text(result), /action=decline/);
  }, () => ({action: 'decline'}));

  using('cancellation', async (client) => {
    const held = async () => JSON.parse(text(await call(client, {name: 'held', arguments: {}})));
    const before = await held();
    const abort = new AbortController();
    await assert.rejects(call(client, {name: 'hold', arguments: {}}, {signal: abort.signal, onprogress: () => abort.abort('enough')}));
    for (;;) { // until the test's timeout
      if ((await held()).cancelled > before.cancelled) return;
    }
  });

  using('resources', async (client) => {
    const {resources} = await client.listResources();
    assert.ok(resources.some((r) => r.uri === 'test://static-binary'));
    const {contents} = await client.readResource({uri: 'test://static-binary'});
    assert.equal(contents[0].mimeType, 'image/png');
    const {resourceTemplates} = await client.listResourceTemplates();
    assert.ok(resourceTemplates.some((r) => r.uriTemplate === 'test://template/{id}/data'));
    const read = await client.readResource({uri: 'test://template/7/data'});
    assert.equal(JSON.parse(read.contents[0].text).id, '7');
    await assert.rejects(client.readResource({uri: 'test://there-is-none'}));
  });

  using('prompts', async (client) => {
    const {prompts} = await client.listPrompts();
    assert.ok(prompts.some((p) => p.name === 'test_simple_prompt'));
    const {messages} = await client.getPrompt({name: 'test_prompt_with_arguments', arguments: {arg1: 'one', arg2: 'two'}});
    assert.match(messages[0].content.text, /arg1='one', arg2='two'/);
  });

  let heard;
  const changed = new Promise((resolve) => (heard = resolve));
  using('a list that changes', async (client) => {
    await call(client, {name: 'test_trigger_tool_change', arguments: {}});
    await changed;
  }, undefined, () => heard());
}
