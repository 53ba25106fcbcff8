module porcupine

go 1.26.3

require (
	github.com/anishathalye/porcupine v1.3.1
)
