#!/bin/sh
# Runs a node that signs with the key of an algorithm, and keeps the cards that it
# serves: serve.sh HANDOFF ALGORITHM FOLDER.
set -eu
handoff=$1 alg=$2 out=$3
hash=$(printf 'interoperable\n' | "$handoff" keys hash-password)
cat >"$out/$alg.yaml" <<END
listen: 127.0.0.1:0
public_url: https://agents.example.com
store: "sqlite::memory:"
signing: {keys: [{file: $alg.pem, id: $alg}], jku: "https://keys.example.com/jwks.json"}
callers:
  anonymous: off
  basic: [{user: partner, password_hash: "$hash", scopes: [quotes]}]
agents:
  quote:
    name: Quote Ünïted
    description: "Quotes prices, in €: 報價."
    version: 1.0.0
    versions: ["1.0", "0.3"]
    provider: {organization: Example, url: "https://example.com"}
    extensions: [{uri: "https://example.com/ext", params: {limit: 1e21, share: 0.1}}]
    skills: [{id: quote, name: Quote, description: Quotes., tags: [quote]}]
    extended:
      skills: [{id: terms, name: Terms, description: Says what is agreed., tags: [contract], scopes: [quotes]}]
    run: {script: [{do: [{complete: done}]}]}
END
"$handoff" serve -c "$out/$alg.yaml" 2>"$out/$alg.log" &
node=$!
trap 'kill $node' EXIT
for _ in $(seq 100); do
	address=$(sed -n 's/.*The node is ready.*address=\([^ ]*\).*/\1/p' "$out/$alg.log")
	[ -n "$address" ] && break
	kill -0 $node 2>/dev/null || { cat "$out/$alg.log"; exit 1; }
	sleep 0.1
done
at=http://$address/agents/quote
curl -sSf "$at/.well-known/agent-card.json" -o "$out/served.$alg.json"
curl -sSf -u partner:interoperable -H 'A2A-Version: 1.0' "$at/v1/extendedAgentCard" -o "$out/extended.$alg.json"
