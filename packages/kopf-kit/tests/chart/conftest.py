import widget

widget.enter()
