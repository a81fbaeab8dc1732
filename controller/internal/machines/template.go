package machines

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// template is a word of Slurm's with the values of labels in it:
//
//	zone-{topology.kubernetes.io/zone}
//	{node.kubernetes.io/instance-type|p5.48xlarge=h100|m7i.large=cpu|*=other}
//
// The second one has words in the place of the label's values, and * stands for all other ones. A
// template makes no word of a machine that lacks one of its labels, or whose value has no word.
type template struct {
	text  string
	kind  kind
	parts []part
}

// part is text, or a label if it has a key.
type part struct {
	text, key string
	// words are nil where the value itself is the word.
	words map[string]string
}

// kind is what a word may consist of (slurm.conf(5)). The agent holds annotations to the same rules
// (internal/slurmd/nodesize).
type kind int

const (
	feature kind = iota
	topology
	weight
)

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// check judges a part of a word: Kubernetes' label values all are parts of features and topologies.
func (k kind) check(text string) error {
	allowed, words := alphanumeric+"-_.=+/@", "letters, digits and -_.=+/@"
	switch k {
	case topology:
		allowed, words = alphanumeric+"-_.:", "letters, digits and -_.:"
	case weight:
		allowed, words = "0123456789", "digits"
	}
	if strings.Trim(text, allowed) != "" {
		return fmt.Errorf("%q has characters that Slurm does not take there: want %s", text, words)
	}
	return nil
}

// whole judges a word.
func (k kind) whole(word string) error {
	if err := k.check(word); err != nil {
		return err
	}
	const most = 1<<32 - 3 // two values above are INFINITE and NO_VAL (slurm.h)
	if n, err := strconv.ParseUint(word, 10, 64); k == weight && (err != nil || n > most) {
		return fmt.Errorf("%q is no weight: want a whole number from 0 to %d", word, uint32(most))
	}
	if name, unit, has := strings.Cut(word, ":"); k == topology && (!has || name == "" || unit == "") {
		return fmt.Errorf("%q is no place in a topology: want topology:unit[:…], as in default:rack1", word)
	}
	return nil
}

func parseTemplate(text string, k kind) (*template, error) {
	t := &template{text: text, kind: k}
	var faults []error
	for rest := text; rest != ""; {
		literal, after, has := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return t, errors.New("it has a } without a {")
		}
		if literal != "" {
			t.parts = append(t.parts, part{text: literal})
			faults = append(faults, k.check(literal))
		}
		if !has {
			break
		}
		inside, after, closed := strings.Cut(after, "}")
		if !closed || strings.Contains(inside, "{") {
			return t, errors.New("it has a { without a }")
		}
		p, err := parseLabel(inside, k)
		t.parts, faults = append(t.parts, p), append(faults, err)
		rest = after
	}
	if err := errors.Join(faults...); err != nil {
		return t, err
	}
	return t, t.fixed()
}

// fixed judges what can be known before there is a machine.
func (t *template) fixed() error {
	var sample strings.Builder
	for _, p := range t.parts {
		if p.key != "" {
			p.text = "0" // stands for any value
		}
		sample.WriteString(p.text)
	}
	return t.kind.whole(sample.String())
}

// parseLabel takes key or key|value=word|….
func parseLabel(text string, k kind) (part, error) {
	fields := strings.Split(text, "|")
	p := part{key: fields[0]}
	faults := []error{wrong(validation.IsQualifiedName(p.key))}
	for _, field := range fields[1:] {
		value, word, has := strings.Cut(field, "=")
		if p.words == nil {
			p.words = map[string]string{}
		}
		_, twice := p.words[value]
		switch {
		case !has || value == "" || word == "":
			faults = append(faults, fmt.Errorf("%q: want value=word", field))
		case twice:
			faults = append(faults, fmt.Errorf("%q: the value has a word already", field))
		case value != "*":
			faults = append(faults, wrong(validation.IsValidLabelValue(value)))
		}
		faults = append(faults, k.check(word))
		p.words[value] = word
	}
	return p, errors.Join(faults...)
}

// expand makes the words of a machine's labels, in the templates' order.
func expand(from []*template, labels map[string]string) (words, faults []string) {
	for _, t := range from {
		word, there, fault := t.word(labels)
		if fault != "" {
			faults = append(faults, t.text+": "+fault)
		}
		if !there {
			continue
		}
		if err := t.kind.whole(word); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", t.text, err))
			continue
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words, faults
}

// word is what the template makes of a machine's labels, if it makes one. The fault is a label that is there and
// empty, which makes no word unless * has one for it.
func (t *template) word(labels map[string]string) (made string, there bool, fault string) {
	var word strings.Builder
	for _, p := range t.parts {
		text := p.text
		if p.key != "" {
			value, has := labels[p.key]
			if !has {
				return "", false, ""
			}
			if text = p.value(value); text == "" && value == "" {
				return "", false, "the label " + p.key + " is empty"
			}
			if text == "" {
				return "", false, ""
			}
		}
		word.WriteString(text)
	}
	return word.String(), true, ""
}

func (p part) value(value string) string {
	if p.words == nil {
		return value
	}
	if word, has := p.words[value]; has {
		return word
	}
	return p.words["*"]
}
