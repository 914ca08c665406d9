//go:build unix

package main

// agentsConfiguration are the agents under test. What the program of the exec
// agents does stands in program.go.
const agentsConfiguration = `agents:
  script:
    name: Script
    description: Goes on after an interruption where it was.
    version: 1.0.0
    skills: [{id: script, name: Script, description: Echoes and counts., tags: [test]}]
    idempotency: on
    run:
      script:
        - when: {turn: 2}
          do: [{artifact: {id: answer, parts: [{text: "{{.Text}}"}], last: true}}]
        - when: {text: '^ask$'}
          do: [{ask: What next?}]
        - when: {text: '^message (.*)$'}
          do: [{message: "{{.Match 1}}"}]
        - when: {text: '^slow (\d+)$'}
          do:
            - working: counting
            - repeat: {times: "{{.Match 1}}", every: 25ms, do: [{artifact: {id: work, append: true, parts: [{text: "{{.I}} "}]}}]}
        - when: {text: '^burst (\d+)$'}
          do:
            - repeat: {times: "{{.Match 1}}", do: [{artifact: {id: work, append: true, parts: [{text: "{{.I}} "}]}}]}
        - do: [{artifact: {id: echo, parts: [{text: "{{.Text}}"}], last: true}}]
  once:
    name: Once
    description: A program with side effects, which is not run again.
    version: 1.0.0
    skills: [{id: once, name: Once, description: Writes a journal., tags: [test]}]
    idempotency: on
    on_interrupt: fail
    run: {exec: {command: ["PROGRAM", program, "JOURNAL.once"], kill_after: 2s}}
  again:
    name: Again
    description: A program that is run again after an interruption.
    version: 1.0.0
    skills: [{id: again, name: Again, description: Writes a journal., tags: [test]}]
    idempotency: on
    on_interrupt: resume
    run: {exec: {command: ["PROGRAM", program, "JOURNAL.again"], kill_after: 2s}}
`
