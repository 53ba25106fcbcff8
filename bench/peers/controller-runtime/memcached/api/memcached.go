// Package api has the Memcached's types, with the status of the tutorial.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the Memcached's.
var GroupVersion = schema.GroupVersion{Group: "cache.example.com", Version: "v1beta1"}

// MemcachedSpec is what the user declares.
type MemcachedSpec struct {
	Replicas int32 `json:"replicas,omitempty"`
}

// MemcachedStatus is what the operator observed.
type MemcachedStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Memcached is a number of nodes.
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemcachedSpec   `json:"spec,omitempty"`
	Status MemcachedStatus `json:"status,omitempty"`
}

// MemcachedList is a list of Memcacheds.
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Memcached `json:"items"`
}

// AddToScheme makes the types known.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Memcached{}, &MemcachedList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyObject copies the Memcached.
func (m *Memcached) DeepCopyObject() runtime.Object { return m.DeepCopy() }

// DeepCopy copies the Memcached.
func (m *Memcached) DeepCopy() *Memcached {
	out := &Memcached{TypeMeta: m.TypeMeta, Spec: m.Spec}
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if m.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(m.Status.Conditions))
		for i := range m.Status.Conditions {
			m.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
	return out
}

// DeepCopyObject copies the list.
func (l *MemcachedList) DeepCopyObject() runtime.Object {
	out := &MemcachedList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Memcached, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return out
}
