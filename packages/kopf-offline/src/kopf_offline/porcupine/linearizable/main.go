// Command linearizable reads the calls of clients, one a line in JSON, and exits with 1 unless some
// order of them explains every answer: each call takes effect between its start and its end. It
// prints the keys whose calls have no such order. Each key is a register of its own. A call without
// an end may have taken effect at any time after its start, or never.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type call struct {
	Key string `json:"key"`
	// What was written; null for a read.
	Value *string `json:"value"`
	// What a read has seen.
	Seen  string   `json:"seen"`
	Start float64  `json:"start"`
	End   *float64 `json:"end"`
}

var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if value := input.(*string); value != nil {
			return true, *value
		}
		return output == state, state
	},
}

func main() {
	keys := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	for count := 0; lines.Scan(); count++ {
		var one call
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if one.Value == nil && one.End == nil {
			continue
		}
		end := int64(math.MaxInt64)
		if one.End != nil {
			end = int64(*one.End * 1e9)
		}
		keys[one.Key] = append(keys[one.Key], porcupine.Operation{
			ClientId: count, Input: one.Value, Call: int64(one.Start * 1e9), Output: one.Seen, Return: end,
		})
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := 0
	for key, operations := range keys {
		if result := porcupine.CheckOperationsTimeout(register, operations, 5*time.Minute); result != porcupine.Ok {
			fmt.Println(key, result)
			code = 1
		}
	}
	os.Exit(code)
}
