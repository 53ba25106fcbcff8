module message-operator/hack/go/pause

go 1.26
