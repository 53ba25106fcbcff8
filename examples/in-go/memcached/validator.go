package main

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"message-operator/examples/in-go/memcached/api"
)

// most is what all nodes of a Memcached may cache, in megabytes.
const most = 1024

// validator refuses a Memcached that caches too much.
type validator struct{}

func (validator) ValidateCreate(_ context.Context, m *api.Memcached) (admission.Warnings, error) {
	if wanted := m.Spec.Replicas * m.Spec.Limits.Memory; wanted > most {
		return nil, fmt.Errorf("all nodes may cache %d MB, and these %d", most, wanted)
	}
	return nil, nil
}

func (v validator) ValidateUpdate(ctx context.Context, _, m *api.Memcached) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, m)
}

func (validator) ValidateDelete(context.Context, *api.Memcached) (admission.Warnings, error) {
	return nil, nil
}
